//! The registry of metrics: every counter of a machine once, with its unit, its class, and how it combines.
//!
//! Counting code names metrics as the registry does ([`record`]); code that sums, formats or explains asks it. A family
//! of metrics is a pattern with named parts, such as `tlb.{array}.misses`; [`parts::PARTS`] explains the parts.
//! `pagewalk schema metrics` prints [`page`], which `cargo xtask docs` writes to `docs/reference/metrics.md`.

mod list;
mod page;
mod parts;
mod schema;

pub use list::CHAPTERS;
pub use page::page;
pub use parts::{MetricPart, PARTS};
pub(crate) use schema::RegistrySchema;

use crate::classes::Class;
use crate::numbers::{bytes, count, cycles, percent, ratio};
use crate::values::{Metrics, Number};

/// What a metric is measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things or events, as the metric's sentence says.
    Count,
    /// Modelled cycles.
    Cycles,
    /// Bytes.
    Bytes,
    /// Pages of the machine's base size.
    Pages,
    /// Frames of memory.
    Frames,
    /// Slots of a TLB.
    Slots,
    /// Picojoules.
    Picojoules,
    /// A fraction of one.
    Share,
    /// A quotient without a unit.
    Quotient,
    /// Events in a thousand instructions.
    PerThousandInstructions,
    /// Cycles for each instruction.
    CyclesPerInstruction,
    /// The instruction at which something happened.
    Instruction,
}

impl Unit {
    /// Its name in documents.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Count => "",
            Unit::Cycles => "cycles",
            Unit::Bytes => "bytes",
            Unit::Pages => "pages",
            Unit::Frames => "frames",
            Unit::Slots => "slots",
            Unit::Picojoules => "pJ",
            Unit::Share => "share of 1",
            Unit::Quotient => "quotient",
            Unit::PerThousandInstructions => "per 1000 instructions",
            Unit::CyclesPerInstruction => "cycles per instruction",
            Unit::Instruction => "instruction",
        }
    }

    /// A value for people.
    pub fn text(self, value: Number) -> String {
        let real = value.as_f64();
        match (self, value) {
            (Unit::Bytes, _) => bytes(real as u64),
            (Unit::Share, _) => percent(real),
            (Unit::CyclesPerInstruction, _) => cycles(real),
            (Unit::Quotient | Unit::PerThousandInstructions | Unit::Picojoules, _) => ratio(real),
            (_, Number::Count(whole)) => count(whole),
            (_, Number::Real(real)) => count(real as u64),
        }
    }
}

/// How a metric combines over processes or cores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Aggregation {
    /// Its values add up.
    Sum,
    /// A quotient of sums: the metrics of `of` together, times a factor, over another metric.
    Recomputed {
        /// The numerator's metrics.
        of: &'static [&'static str],
        /// A factor.
        times: f64,
        /// The denominator.
        over: &'static str,
    },
    /// It does not: it describes one process.
    Never,
}

/// One metric, or a family of metrics.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metric {
    /// Its name, or the pattern of its names: `tlb.{array}.misses`.
    pub id: &'static str,
    /// What it is measured in.
    pub unit: Unit,
    /// Where it comes from.
    pub class: Class,
    /// How it combines over processes and cores.
    pub adds: Aggregation,
    /// What it is, in one sentence.
    pub doc: &'static str,
}

impl Metric {
    /// Its name as the heading of a column.
    pub fn title(&self) -> String {
        match self.unit {
            Unit::PerThousandInstructions => "per 1000 instr.".to_owned(),
            _ => self.id.rsplit('.').next().unwrap_or_default().replace('_', " "),
        }
    }

    /// Its value: as recorded in `metrics`, or else computed from them.
    pub fn of(&self, metrics: &Metrics) -> Option<Number> {
        metrics.get(self.id).copied().or_else(|| quotient(self.adds, metrics))
    }
}

/// The quotient of these metrics, if it is one and its parts are known. Over 0 it is 0.
fn quotient(adds: Aggregation, metrics: &Metrics) -> Option<Number> {
    let Aggregation::Recomputed { of, times, over } = adds else { return None };
    if !metrics.contains_key(*of.first()?) || !metrics.contains_key(over) {
        return None;
    }
    let value = |name: &str| metrics.get(name).map_or(0.0, |number| number.as_f64());
    let (above, below) = (of.iter().map(|name| value(name)).sum::<f64>() * times, value(over));
    Some(Number::Real(if below > 0.0 { above / below } else { 0.0 }))
}

/// Metrics that belong together.
pub struct Chapter {
    /// What they are of.
    pub title: &'static str,
    /// Which machines, kernels or studies record them.
    pub about: &'static str,
    /// In the order in which they are read.
    pub metrics: &'static [Metric],
}

/// All metrics.
pub fn all() -> impl Iterator<Item = &'static Metric> {
    CHAPTERS.iter().flat_map(|chapter| chapter.metrics)
}

/// The metric or family of a name.
pub fn find(name: &str) -> Option<&'static Metric> {
    all().find(|metric| parts::split(metric.id, name).is_some())
}

/// The values of a family's named parts in one of its names, in order: `l1d` of `tlb.l1d.misses`.
pub fn parts_of<'a>(id: &str, name: &'a str) -> Option<Vec<&'a str>> {
    parts::split(id, name)
}

/// Adds a metric to those of a machine.
///
/// # Panics
/// In builds with debug assertions, where no metric of the registry has the name.
pub fn record(metrics: &mut Metrics, name: impl Into<String>, value: Number) {
    let name = name.into();
    debug_assert!(find(&name).is_some(), "`{name}` is no metric of the registry (crates/report/src/metrics)");
    metrics.insert(name, value);
}

/// [`record`] for a count.
pub fn record_count(metrics: &mut Metrics, name: impl Into<String>, count: u64) {
    record(metrics, name, Number::Count(count));
}

/// Computes the metrics that are quotients of others.
pub fn add_quotients(metrics: &mut Metrics) {
    for metric in all() {
        if let Some(value) = quotient(metric.adds, metrics) {
            record(metrics, metric.id, value);
        }
    }
}

/// The metrics of a machine over several processes or cores. Metrics that do not combine are left out, unless there
/// is only one process or core.
pub fn sum<'a>(all: impl IntoIterator<Item = &'a Metrics>) -> Metrics {
    let mut all = all.into_iter();
    let Some(mut sum) = all.next().cloned() else { return Metrics::new() };
    let mut is_one = true;
    for metrics in all {
        is_one = false;
        for (name, &value) in metrics {
            let sum = sum.entry(name.clone()).or_insert(Number::Count(0));
            *sum = match (*sum, value) {
                (Number::Count(a), Number::Count(b)) => Number::Count(a.saturating_add(b)),
                (a, b) => Number::Real(a.as_f64() + b.as_f64()),
            };
        }
    }
    sum.retain(|name, _| is_one || find(name).is_none_or(|metric| metric.adds != Aggregation::Never));
    add_quotients(&mut sum);
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_metric_stands_once_and_has_a_sentence() {
        let mut ids = BTreeSet::new();
        for metric in all() {
            assert!(ids.insert(metric.id), "{} stands twice", metric.id);
            assert!(!metric.doc.is_empty() && !metric.doc.ends_with('.'), "{}: {}", metric.id, metric.doc);
            let first = find(metric.id.replace(['{', '}'], "").as_str());
            assert!(first.is_some() || metric.id.contains('{'), "{}", metric.id);
            for part in parts::names(metric.id) {
                assert!(PARTS.iter().any(|known| known.name == part), "{}: {part} is no part", metric.id);
            }
        }
    }

    #[test]
    fn names_belong_to_the_family_that_is_meant() {
        let of = |name: &str| find(name).map(|metric| metric.id);
        assert_eq!(of("walks"), Some("walks"));
        assert_eq!(of("tlb.l1d.misses"), Some("tlb.{array}.misses"));
        assert_eq!(of("tlb.level2.misses"), Some("tlb.level{level}.misses"));
        assert_eq!(of("cache.l2.walk_hits"), Some("cache.{cache}.{requester}_hits"));
        assert_eq!(of("kernel.promotions.64K"), Some("kernel.promotions.{size}"));
        assert_eq!(of("kernel.zero_cycles"), Some("kernel.{account}_cycles"));
        assert_eq!(parts_of("cache.{cache}.{requester}_hits", "cache.l2.walk_hits").unwrap(), ["l2", "walk"]);
        for unknown in ["", "walk", "walkss", "tlb..misses", "tlb.l1d", "misses.l9", "kernel.idle_cycles"] {
            assert_eq!(of(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn sums_leave_out_states_and_make_quotients_anew() {
        let one = |walks: u64, lower: u64| {
            let mut metrics = Metrics::new();
            for (name, count) in [("walks", walks), ("instructions", 1000), ("partition.lower", lower)] {
                record_count(&mut metrics, name, count);
            }
            metrics
        };
        let (a, b) = (one(3, 8), one(5, 9));
        let both = sum([&a, &b]);
        assert_eq!(both["walks"], Number::Count(8));
        assert_eq!(both["walks_per_kilo_instruction"], Number::Real(4.0));
        assert_eq!(both.get("partition.lower"), None);
        assert_eq!(sum([&a])["partition.lower"], Number::Count(8));
        // Nobody knows all cycles.
        assert_eq!(both.get("walk_cycle_share"), None);
        assert!(sum([]).is_empty());
    }

    #[test]
    fn units_have_their_own_figures() {
        let text = |name: &str, value| find(name).unwrap().unit.text(value);
        assert_eq!(text("walks", Number::Count(1_234_567)), "1.23 M");
        assert_eq!(text("kernel.promoted_bytes", Number::Count(2 << 20)), "2 MiB");
        assert_eq!(text("walk_cycle_share", Number::Real(0.0781)), "7.81 %");
        assert_eq!(text("tlb_mcpi", Number::Real(0.41459)), "0.4146");
    }
}
