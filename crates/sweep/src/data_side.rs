//! A data side's counts under their long names, with its cycles and its energy.

use crate::study::{KernelKind, Study};
use pagewalk_cost::{EnergyError, EnergyTable, Structure, Use};
use pagewalk_mm::Small;
use pagewalk_report::metrics::{add_quotients, record, record_count};
use pagewalk_report::schema::{Metrics, Number};
use pagewalk_sim::{DataSideTotals, DataSides, RangeTotals};
use pagewalk_translate::{ArrayUse, MachineSpec, RangeTable, TlbSpec};
use std::sync::Arc;

/// Checks that data sides run under the host's kernel alone, in no operating system, one process at a time.
pub fn check_alone(study: &Study) -> Result<(), String> {
    let Some(side) = study.machines.iter().find(|variant| variant.machine.data_side.is_some()) else {
        return Ok(());
    };
    let inside = |why: &str| Err(format!("machine `{}` has side = \"data\": {why}", side.machine.name));
    if study.kernels.iter().any(|kernel| kernel.kind != KernelKind::Host) {
        return inside("kernels that build superpages have machines of their own: leave [[os]] out");
    }
    if study.structures.iter().any(|structure| structure.spec.is_some()) {
        return inside(
            "it is simulated without an operating system around the program: leave `structures` out",
        );
    }
    if let Some(trace) = study.traces.iter().find(|trace| trace.turns().is_some()) {
        return inside(&format!(
            "it is of one process, and trace `{}` is several that take turns",
            trace.name()
        ));
    }
    Ok(())
}

/// The counts by their names in the registry.
///
/// # Errors
/// If the machine's energy table lacks one of its structures.
pub fn data_side_metrics(machine: &MachineSpec, totals: &DataSideTotals) -> Result<Metrics, EnergyError> {
    let mut metrics = Metrics::new();
    let mut count = |name: String, value: u64| record_count(&mut metrics, name, value);
    let counts = &totals.counts;
    count("instructions".into(), totals.instructions);
    count("references".into(), totals.data_references);
    count("references_data".into(), totals.data_references);
    count("translations".into(), counts.references);
    for array in &counts.arrays {
        of_array(array, counts.references, counts.level1_misses, &mut count);
    }
    for (name, _, ways) in machine.tlbs.iter().enumerate().flat_map(|of| shapes(machine, of)) {
        let array = counts.arrays.iter().find(|array| array.name == name && array.level == 1);
        if let Some(array) = array {
            let of = array.operations.iter().find(|of| of.ways == ways).copied().unwrap_or_default();
            count(format!("tlb.{name}.searches_with_ways.{ways}"), of.reads);
            count(format!("tlb.{name}.writes_with_ways.{ways}"), of.writes);
        }
    }
    for ranges in &counts.ranges {
        let name = &ranges.name;
        count(format!("range_tlb.{name}.lookups"), ranges.lookups);
        count(format!("range_tlb.{name}.hits"), ranges.hits);
        count(format!("range_tlb.{name}.misses"), ranges.lookups - ranges.hits);
        count(format!("range_tlb.{name}.repeated_hits"), ranges.mru_hits);
        count(format!("range_tlb.{name}.searches"), ranges.reads);
        count(format!("range_tlb.{name}.writes"), ranges.writes);
    }
    count("tlb.level1.misses".into(), counts.level1_misses);
    if machine.last_level() == 2 {
        count("tlb.level2.misses".into(), counts.walks);
    }
    count("walks".into(), counts.walks);
    count("walks_data".into(), counts.walks);
    count("walk_references".into(), counts.walk_references);
    if let Some(ranges) = totals.ranges {
        count("range_table.ranges".into(), ranges.ranges);
        count("range_table.nodes".into(), ranges.nodes);
        count("range_table.pages".into(), ranges.covered);
        count("range_table.pages_of_all".into(), ranges.pages);
        count("range_table.median_pages".into(), ranges.median);
        count("range_table.largest_pages".into(), ranges.largest);
        for (share, needed) in RangeTotals::SHARES.into_iter().zip(ranges.for_share) {
            count(format!("range_table.ranges_for_{share}_percent"), needed);
        }
        count("range_walks".into(), counts.range_walks);
        count("range_walk_nodes".into(), counts.range_nodes);
    }
    if let Some(walks) = totals.unbacked_walks {
        count("walks_without_frame".into(), walks);
    }
    if let Some(hits) = totals.segment_hits {
        count("segment_hits".into(), hits);
    }
    if let Some(collapses) = totals.collapses {
        count("collapses".into(), collapses);
    }
    if let Some(anchors) = counts.anchors {
        count("anchors.lookups".into(), anchors.lookups);
        count("anchors.hits".into(), anchors.hits);
        count("anchors.distance".into(), anchors.distance);
        count("anchors.distance_changes".into(), anchors.changes);
    }
    if let Some([first, second]) = counts.searched_again {
        count("predictor.second_searches_level1".into(), first);
        count("predictor.second_searches_level2".into(), second);
    }
    let side = machine.data_side.as_deref();
    if side.is_some_and(|side| side.lite.is_some()) {
        count("lite.intervals".into(), counts.intervals);
        count("lite.reactivations_by_chance".into(), counts.reactivations[0]);
        count("lite.reactivations_by_misses".into(), counts.reactivations[1]);
    }
    let level1 = counts.level1_misses.saturating_mul(machine.cost.l2_hit);
    let walk = counts.walks.saturating_mul(side.map_or(0, |side| side.walk_cycles));
    count("l2_hit_cycles".into(), level1);
    count("walk_cycles".into(), walk);
    let misses = level1.saturating_add(walk);
    count("miss_cycles".into(), misses);
    let total = totals.instructions as f64 * machine.cost.cycles_per_instruction + misses as f64;
    record(&mut metrics, "total_cycles", Number::Real(total));
    add_quotients(&mut metrics);
    if let Some(table) = side.and_then(|side| side.energy.as_deref()) {
        add_energy(&EnergyTable::named(table)?, totals, &mut metrics)?;
    }
    Ok(metrics)
}

/// Fails if a machine is a data side that cannot be simulated, or priced.
pub(crate) fn check(machine: &MachineSpec) -> Result<(), String> {
    if machine.data_side.is_some() {
        let one = std::slice::from_ref(machine);
        DataSides::new(one, Arc::new(Small)).map_err(|why| why.to_string())?;
    }
    check_energy(machine).map_err(|why| why.to_string())
}

/// Fails if a machine names an energy table that lacks something it needs: before anything is simulated.
pub fn check_energy(machine: &MachineSpec) -> Result<(), EnergyError> {
    let Some(side) = machine.data_side.as_deref() else { return Ok(()) };
    let Some(table) = side.energy.as_deref().map(EnergyTable::named).transpose()? else { return Ok(()) };
    for (name, sets, ways) in machine.tlbs.iter().enumerate().flat_map(|of| shapes(machine, of)) {
        table.of(name, Structure::PageTlb, sets * ways, ways)?;
    }
    for ranges in &side.range_tlbs {
        table.of(&ranges.name, Structure::RangeTlb, ranges.entries, ranges.entries)?;
    }
    for (name, cache) in machine.walker.caches() {
        let shape = cache.geometry;
        table.of(&name, Structure::WalkCache, shape.entries() as u32, shape.ways() as u32)?;
    }
    Ok(())
}

/// The name and sets of an array, with each number of its ways that may be on.
fn shapes<'a>(machine: &MachineSpec, (index, tlb): (usize, &'a TlbSpec)) -> Vec<(&'a str, u32, u32)> {
    let (sets, all) = (tlb.geometry.sets() as u32, tlb.geometry.ways() as u32);
    let lite = machine.data_side.as_deref().and_then(|side| side.lite.as_ref());
    let least = if lite.is_some_and(|lite| lite.tlbs.contains(&index)) { 1 } else { all };
    let halves = std::iter::successors(Some(all), |ways| Some(ways / 2));
    halves.take_while(|&ways| ways >= least).map(|ways| (tlb.name.as_str(), sets, ways)).collect()
}

fn of_array(array: &ArrayUse, references: u64, misses: u64, count: &mut impl FnMut(String, u64)) {
    let name = &array.name;
    if array.level == 0 {
        count(format!("walk_cache.{name}.lookups"), array.reads());
        count(format!("walk_cache.{name}.hits"), array.hits);
        count(format!("walk_cache.{name}.writes"), array.writes());
        return;
    }
    let lookups = if array.level == 1 { references } else { misses };
    count(format!("tlb.{name}.lookups"), lookups);
    count(format!("tlb.{name}.hits"), array.hits);
    count(format!("tlb.{name}.misses"), lookups - array.hits);
    count(format!("tlb.{name}.searches"), array.reads());
    count(format!("tlb.{name}.writes"), array.writes());
}

/// The operations that energy is priced by.
pub fn uses(totals: &DataSideTotals) -> Vec<Use> {
    let of_array = |array: &ArrayUse| -> Vec<Use> {
        let kind = if array.level == 0 { Structure::WalkCache } else { Structure::PageTlb };
        let of = |of: &pagewalk_translate::Operations| Use {
            name: array.name.clone(),
            kind,
            entries: array.sets * of.ways,
            ways: of.ways,
            reads: of.reads,
            writes: of.writes,
        };
        array.operations.iter().map(of).collect()
    };
    let ranges = totals.counts.ranges.iter().map(|ranges| Use {
        name: ranges.name.clone(),
        kind: Structure::RangeTlb,
        entries: ranges.entries,
        ways: ranges.entries,
        reads: ranges.reads,
        writes: ranges.writes,
    });
    totals.counts.arrays.iter().flat_map(of_array).chain(ranges).collect()
}

fn add_energy(
    table: &EnergyTable,
    totals: &DataSideTotals,
    metrics: &mut Metrics,
) -> Result<(), EnergyError> {
    let counts = &totals.counts;
    let energy =
        table.energy(&uses(totals), counts.walk_references, counts.range_nodes * RangeTable::NODE_LINES)?;
    let mut add = |name: String, value: f64| record(metrics, name, Number::Real(value));
    // What did nothing has figures too.
    let arrays = counts.arrays.iter().map(|array| &array.name);
    for name in arrays.chain(counts.ranges.iter().map(|ranges| &ranges.name)) {
        add(format!("energy_pj.{name}.searches"), 0.0);
        add(format!("energy_pj.{name}.writes"), 0.0);
    }
    for (name, reads, writes) in &energy.structures {
        add(format!("energy_pj.{name}.searches"), *reads);
        add(format!("energy_pj.{name}.writes"), *writes);
    }
    add("energy_pj.walks".into(), energy.walks);
    add("energy_pj.range_walks".into(), energy.range_walks);
    add("energy_pj.all".into(), energy.total());
    if let Some(beyond) = energy.walks_beyond {
        add("energy_pj.all_if_walks_miss_l1".into(), energy.total() + beyond);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewalk_sim::Library;

    /// Prices that no counter has room for.
    #[test]
    fn cycles_end_at_the_most_that_there_can_be() {
        let mut machine = Library::get("karakostas_4k").expect("it is in the library");
        let mut pass = DataSides::new(std::slice::from_ref(&machine), Arc::new(Small)).expect("a data side");
        let mut totals = pass.finish().remove(0);
        (totals.counts.level1_misses, totals.counts.walks) = (3, 3);
        machine.cost.l2_hit = u64::MAX / 2;
        machine.data_side.as_deref_mut().expect("it is a data side").walk_cycles = u64::MAX / 2;
        let metrics = data_side_metrics(&machine, &totals).expect("its table has all structures");
        assert_eq!(metrics["miss_cycles"], Number::Count(u64::MAX));
        assert_eq!(metrics["total_cycles"], Number::Real(u64::MAX as f64));
    }
}
