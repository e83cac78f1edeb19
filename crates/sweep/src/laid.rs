//! Machines under layouts: each plan's stream moved for itself, and what the sets of last levels cost under all of them
//! from one pass.

use crate::error::SweepError;
use crate::plans::bind;
use crate::study::MachineVariant;
use crate::task::{Outcome, Running, Task};
use pagewalk_layout::Plan;
use pagewalk_layout::evictions::{ArraySpec, Side};
use pagewalk_layout::planner::reuses::last_level;
use pagewalk_layout::rebase::{Bound, Mover};
use pagewalk_layout::splits::{Lane, Split, Splits};
use pagewalk_mm::ThpMode;
use pagewalk_report::metrics::{record, record_count};
use pagewalk_report::schema::{Metrics, Number};
use pagewalk_trace::pwt::Events;
use pagewalk_trace::{Analysis, Batch, Event};
use pagewalk_translate::TlbSpec;
use pagewalk_units::RefIndex;

/// An analysis of a stream whose objects lie as planned.
pub struct Moved<A> {
    mover: Option<Mover>,
    inner: A,
}

impl<A> Moved<A> {
    /// `inner` of what `mover` makes of the stream; of the stream as it is without one.
    pub fn new(mover: Option<Mover>, inner: A) -> Moved<A> {
        Moved { mover, inner }
    }

    /// What saw the stream.
    pub fn into_inner(self) -> A {
        self.inner
    }
}

impl<A: Analysis> Analysis for Moved<A> {
    fn is_done(&self) -> bool {
        self.inner.is_done()
    }

    fn on_batch(&mut self, batch: &Batch<'_>) {
        match &mut self.mover {
            Some(mover) => self.inner.on_batch(&mover.batch(batch)),
            None => self.inner.on_batch(batch),
        }
    }

    fn on_event(&mut self, at: RefIndex, event: &Event) {
        match &mut self.mover {
            Some(mover) => mover.event(event, |event| self.inner.on_event(at, &event)),
            None => self.inner.on_event(at, event),
        }
    }
}

/// A machine under a layout: the number of its task, and the layout's plan unless it is the recorded one.
pub struct LaidTask<'a> {
    pub number: usize,
    pub machine: &'a MachineVariant,
    pub plan: Option<&'a str>,
}

/// All machines of a stream under their layouts.
pub struct Laid {
    passes: Vec<Moved<Running>>,
    splits: Splits,
    /// By lane of the splits: its task, and its array's name.
    lanes: Vec<(usize, String)>,
}

impl Laid {
    /// For these tasks over the stream with these events.
    pub fn start(
        tasks: &[LaidTask<'_>],
        events: &Events,
        wrong: impl Fn(String) -> SweepError,
    ) -> Result<Laid, SweepError> {
        let mut plans: Vec<Option<&str>> = tasks.iter().map(|task| task.plan).collect();
        plans.sort_unstable();
        plans.dedup();
        let (mut passes, mut bounds) = (Vec::new(), Vec::new());
        let (mut lanes, mut of_lanes) = (Vec::new(), Vec::new());
        for plan in plans {
            let bound = plan.map(|plan| bound(plan, events)).transpose().map_err(&wrong)?;
            let mover = || bound.as_ref().map(|bound| Mover::new(bound, &events.header));
            let own: Vec<&LaidTask<'_>> = tasks.iter().filter(|task| task.plan == plan).collect();
            let as_tasks: Vec<(usize, Task<'_>)> =
                own.iter().map(|task| (task.number, Task::Machine(task.machine, (None, None)))).collect();
            // One thread: each plan has a pass of its own anyway.
            let running = Running::start(&as_tasks, &[events.header.origin], ThpMode::Never, false, 1);
            for running in running.map_err(|error| wrong(error.to_string()))? {
                passes.push(Moved::new(mover(), running));
            }
            let layout = bound.as_ref().map(|_| bounds.len());
            bounds.extend(bound);
            for task in own {
                for array in arrays(task.machine) {
                    of_lanes.push((task.number, array.name.clone()));
                    lanes.push(Lane { array, layout });
                }
            }
        }
        let splits = Splits::new(&events.header, bounds, &lanes);
        Ok(Laid { passes, splits, lanes: of_lanes })
    }

    /// What has to be given the stream.
    pub fn parts(&mut self) -> Vec<&mut dyn Analysis> {
        let passes = self.passes.iter_mut().map(|pass| pass as &mut dyn Analysis);
        std::iter::once(&mut self.splits as &mut dyn Analysis).chain(passes).collect()
    }

    /// The outcomes, with the numbers of their tasks.
    pub fn finish(self) -> Vec<(usize, Outcome)> {
        let mut outcomes: Vec<(usize, Outcome)> =
            self.passes.into_iter().flat_map(|pass| pass.into_inner().finish()).collect();
        let splits: Vec<(usize, String, Split)> = self
            .lanes
            .into_iter()
            .zip(self.splits.finish())
            .map(|((task, name), split)| (task, name, split))
            .collect();
        for (number, outcome) in &mut outcomes {
            let own = splits.iter().filter(|(task, ..)| task == number);
            if let Outcome::Machine(metrics, _) = outcome {
                add_splits(metrics, own.map(|(_, name, split)| (name.as_str(), split)));
            }
        }
        outcomes
    }
}

/// The arrays of the last level that have sets, and an entry for each page.
fn arrays(variant: &MachineVariant) -> impl Iterator<Item = ArraySpec> {
    let by_page = |tlb: &&TlbSpec| tlb.pages_per_entry == 1 && tlb.coalesce.is_none();
    last_level(&variant.machine).into_iter().filter(by_page).filter_map(ArraySpec::of)
}

fn bound(plan: &str, events: &Events) -> Result<Bound, String> {
    let plan = Plan::parse(plan, "a plan of this study").map_err(|error| error.to_string())?;
    bind(&plan, events)
}

/// Adds what the sets of a machine's last level cost, array by array and in all, under names of the registry.
pub fn add_splits<'a>(metrics: &mut Metrics, splits: impl Iterator<Item = (&'a str, &'a Split)>) {
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

fn counts(split: &Split) -> [(&'static str, u64); 10] {
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

/// Names of what [`add_splits`] adds for a machine.
pub fn split_names(variant: &MachineVariant) -> Vec<String> {
    let arrays: Vec<ArraySpec> = arrays(variant).collect();
    let none = Split::default();
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
        add_splits(&mut metrics, [("l2", &Split::default())].into_iter());
        let named: BTreeSet<&str> =
            metrics.keys().map(|name| find(name).expect("it was recorded").id).collect();
        let of_sets = |id: &&str| id.starts_with("last_level.");
        let all = CHAPTERS.iter().flat_map(|chapter| chapter.metrics).map(|metric| metric.id);
        assert_eq!(named, all.filter(of_sets).collect());
    }
}
