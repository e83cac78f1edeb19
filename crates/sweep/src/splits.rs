//! What the sets of a machine's last level cost, under names of the registry.

use crate::study::MachineVariant;
use pagewalk_layout::evictions::{ArraySpec, Side};
use pagewalk_layout::planner::reuses::last_level;
use pagewalk_layout::splits::LaneCounts;
use pagewalk_report::metrics::{record, record_count};
use pagewalk_report::schema::{Metrics, Number};
use pagewalk_translate::TlbSpec;

/// The last-level arrays that have sets, with one page per entry.
pub fn arrays(variant: &MachineVariant) -> impl Iterator<Item = ArraySpec> {
    let by_page = |tlb: &&TlbSpec| tlb.pages_per_entry == 1 && tlb.coalesce.is_none();
    last_level(&variant.machine).into_iter().filter(by_page).filter_map(ArraySpec::of)
}

/// Adds what the sets of a machine's last level cost, by array and in total, under names of the registry.
pub fn add_splits<'a>(metrics: &mut Metrics, splits: impl Iterator<Item = (&'a str, &'a LaneCounts)>) {
    for (array, split) in splits {
        for (name, count) in counts(split) {
            record_count(metrics, format!("last_level.{array}.{name}"), count);
            let all = metrics.entry(format!("last_level.{name}")).or_insert(Number::Count(0));
            if let Number::Count(all) = all {
                *all += count;
            }
        }
        let real = [
            ("misses_per_set_variation", split.variation()),
            ("most_involved_page_share", split.most_involved_share()),
        ];
        for (name, value) in real {
            record(metrics, format!("last_level.{array}.{name}"), Number::Real(value));
        }
    }
}

fn counts(split: &LaneCounts) -> [(&'static str, u64); 10] {
    let misses = &split.misses;
    let of = |victimiser: Side, victim: Side| split.evictions[victimiser as usize][victim as usize];
    [
        ("misses", misses.total()),
        ("compulsory_misses", misses.compulsory),
        ("capacity_misses", misses.capacity),
        ("conflict_misses", misses.conflict),
        ("spared_misses", misses.spared),
        ("fully_associative_misses", misses.of_twin()),
        ("evictions_of_code_by_code", of(Side::Fetch, Side::Fetch)),
        ("evictions_of_data_by_code", of(Side::Fetch, Side::Data)),
        ("evictions_of_code_by_data", of(Side::Data, Side::Fetch)),
        ("evictions_of_data_by_data", of(Side::Data, Side::Data)),
    ]
}

/// The names that [`add_splits`] adds for a machine.
pub fn split_names(variant: &MachineVariant) -> Vec<String> {
    let arrays: Vec<ArraySpec> = arrays(variant).collect();
    let none = LaneCounts::default();
    let mut metrics = Metrics::new();
    add_splits(&mut metrics, arrays.iter().map(|array| (array.name.as_str(), &none)));
    metrics.into_keys().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewalk_report::metrics::{CHAPTERS, find};
    use std::collections::BTreeSet;

    #[test]
    fn the_registry_has_these_names_and_no_others() {
        let mut metrics = Metrics::new();
        add_splits(&mut metrics, [("l2", &LaneCounts::default())].into_iter());
        let named: BTreeSet<&str> =
            metrics.keys().map(|name| find(name).expect("it was recorded").id).collect();
        let of_sets = |id: &&str| id.starts_with("last_level.");
        let all = CHAPTERS.iter().flat_map(|chapter| chapter.metrics).map(|metric| metric.id);
        assert_eq!(named, all.filter(of_sets).collect());
    }
}
