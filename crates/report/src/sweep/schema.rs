//! The result of a sweep, as data. `--json` writes exactly this; Parquet, tables and pictures are made from it.

use crate::metrics::RegistrySchema;
use crate::schema::{Metrics, PartitionMove};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The schema name that every sweep's result carries.
pub const SWEEP_SCHEMA: &str = "pagewalk.sweep/1";

/// The result of a study.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SweepResult {
    /// [`SWEEP_SCHEMA`].
    pub schema: String,
    /// Version of pagewalk.
    pub version: String,
    /// The study's name.
    pub name: String,
    /// Its title, for people.
    pub title: String,
    /// The streams, in the study's order. Other lists refer to them by index.
    pub traces: Vec<SweepTrace>,
    /// Plans of layouts that the study made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plans: Vec<LayoutPlanRow>,
    /// Machines on traces: trace by trace, in each the machines in the study's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<MachineCell>,
    /// Families on traces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub families: Vec<FamilyCell>,
    /// Families of caches on traces, a cell for each line size.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cache_families: Vec<CacheFamilyCell>,
    /// Miss-ratio curves of traces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curves: Vec<CurveCell>,
    /// Comparisons of this study's quotients with published ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub comparisons: Vec<Comparison>,
    /// Published tables, to read next to the results.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<PublishedTable>,
    /// Plots that the study requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plots: Vec<Plot>,
}

/// A plot of metrics against a varied key, for each trace and each combination of the keys that it does not name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Plot {
    /// What it shows.
    pub title: String,
    /// The published figure to compare it with, and what that shows; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// The varied key of its axis, with integer values; or [`Plot::TIME`], with [`Plot::PARTITION`] alone as `y`; or
    /// [`Plot::MACHINE`], for a bar per machine whose parts are `y`.
    pub x: String,
    /// Metrics of machines: a line for each.
    pub y: Vec<String>,
    /// A key, or `trace`, `machine`, `os` or `structure`, with a line for each of its values.
    pub lines: Option<String>,
    /// Keys, or these four names, with the only value to show.
    #[serde(default, skip_serializing_if = "Parameters::is_empty")]
    pub at: Parameters,
    /// Whether the axis is logarithmic.
    #[serde(default)]
    pub logarithmic: bool,
}

impl Plot {
    /// The axis of time, in instructions.
    pub const TIME: &str = "instructions";
    /// The one metric that is recorded over time: slots below a moving partition.
    pub const PARTITION: &str = "partition.lower";
    /// The axis of machines side by side.
    pub const MACHINE: &str = "machine";

    /// Whether its axis is time.
    pub fn is_over_time(&self) -> bool {
        self.x == Plot::TIME
    }

    /// Whether it shows machines side by side, as bars.
    pub fn is_by_machine(&self) -> bool {
        self.x == Plot::MACHINE
    }
}

/// A published table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PublishedTable {
    /// What it shows, with its unit.
    pub title: String,
    /// Its source.
    pub source: String,
    /// The table of the result that it goes with: `misses`, `time` or `memory` of kernels, or `layouts`.
    pub beside: String,
    /// Titles of its columns.
    pub columns: Vec<String>,
    /// Its rows.
    pub rows: Vec<PublishedRow>,
}

/// A row of a [`PublishedTable`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PublishedRow {
    /// Its name.
    pub name: String,
    /// The figures as published, one for each column.
    pub values: Vec<String>,
}

/// One stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SweepTrace {
    /// Its name in the study.
    pub name: String,
    /// Path of the program.
    pub program: String,
    /// Its command line.
    pub command_line: Vec<String>,
    /// How its processes take turns, in words: `turns of 500 instructions`; none: it has one process. Otherwise the
    /// program names all of them, and the command line has all of theirs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<String>,
    /// BLAKE3 hash of the trace file, in hexadecimal. For several traces in turns, the hash of their hashes and of the
    /// ends of turns.
    pub fingerprint: String,
    /// Simulated mode of transparent huge pages: `always`, `madvise` or `never`.
    pub thp: String,
    /// If the trace says nothing of mappings, so that areas are inferred from its references: the gap in bytes, up to
    /// which touched pages are surely in one area. Left out if areas are the program's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inferred_gap: Option<u64>,
    /// Instructions executed.
    pub instructions: u64,
    /// Data references.
    pub references_data: u64,
}

/// A value that a study gives a key: an integer, or any other TOML value as text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Value {
    /// A whole number.
    Integer(i64),
    /// Anything else.
    Text(String),
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Integer(number) => number.fmt(f),
            Value::Text(text) => text.fmt(f),
        }
    }
}

/// Values by key, such as `tlb.l2.entries`.
pub type Parameters = BTreeMap<String, Value>;

/// One machine on one trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MachineCell {
    /// Index of the trace in [`SweepResult::traces`].
    pub trace: usize,
    /// The machine's name.
    pub machine: String,
    /// The kernel's name, if the study names kernels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub os: Option<String>,
    /// The operating system's structure, if the study names structures. Counters then include references of the kernel
    /// and the servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structure: Option<String>,
    /// The layout of shared objects, if the study names layouts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<String>,
    /// The seed of a random layout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout_seed: Option<u64>,
    /// The keys that the study varies, with their values here.
    #[serde(default, skip_serializing_if = "Parameters::is_empty")]
    pub parameters: Parameters,
    /// Its counters, as from `pagewalk simulate`.
    #[schemars(with = "RegistrySchema")]
    pub metrics: Metrics,
    /// Moves of a software-managed TLB's partition, its start first; empty if it does not move.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partition: Vec<PartitionMove>,
}

impl MachineCell {
    /// Whether its program was killed for lack of memory. Its figures end there and compare with no others.
    pub fn was_killed(&self) -> bool {
        self.metrics.contains_key("kernel.killed_at")
    }

    /// The machine with everything that is around it, but for one key.
    pub(crate) fn title(&self, without: &str) -> String {
        let seed = self.layout_seed.map_or(String::new(), |seed| format!(" by seed {seed}"));
        self.title_under(without, self.layout.as_ref().map(|layout| format!("{layout}{seed}")))
    }

    /// The same, with other words for the layout.
    pub(crate) fn title_under(&self, without: &str, layout: Option<String>) -> String {
        let named = [("os", self.os.clone()), ("structure", self.structure.clone()), ("layout", layout)];
        let names = named.into_iter().filter(|(key, _)| *key != without);
        let names = names.filter_map(|(_, name)| Some(format!(", {}", name?)));
        let values = self.parameters.iter().map(|(key, value)| format!(", {key} = {value}"));
        format!("{}{}", self.machine, names.chain(values).collect::<String>())
    }
}

/// A plan of a layout of shared objects.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LayoutPlanRow {
    /// Index in [`SweepResult::traces`] of the trace that it was made from.
    pub trace: usize,
    /// The process that it was made for, from 1; none: the trace has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<usize>,
    /// The layout's name.
    pub layout: String,
    /// The seed of a random layout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout_seed: Option<u64>,
    /// The machine that it was made for, with its varied values; none: for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Its file, in the study's folder of plans.
    pub file: String,
    /// What its planner did, in a sentence.
    pub did: String,
}

/// A family of LRU arrays on one trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FamilyCell {
    /// Index of the trace in [`SweepResult::traces`].
    pub trace: usize,
    /// The references that look the arrays up: `data`, `fetches` or `everything`.
    pub serves: String,
    /// References; each counts once per 4 KiB page that it touches.
    pub references: u64,
    /// Misses by page size.
    pub sizes: Vec<FamilySize>,
}

/// The arrays of a family for pages of one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FamilySize {
    /// The page size: `4K`, `2M` …
    pub page_size: String,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Numbers of sets, ascending.
    pub sets: Vec<u32>,
    /// Numbers of ways, ascending.
    pub ways: Vec<u32>,
    /// Misses: a list for each number of sets, with a count for each number of ways.
    pub misses: Vec<Vec<u64>>,
}

impl FamilySize {
    /// Misses of the array of `sets` times `ways`.
    pub fn misses_of(&self, sets: u32, ways: u32) -> Option<u64> {
        let row = self.sets.iter().position(|&s| s == sets)?;
        let column = self.ways.iter().position(|&w| w == ways)?;
        Some(self.misses[row][column])
    }
}

/// A family of LRU caches with lines of one size on one trace. Addresses are virtual.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CacheFamilyCell {
    /// Index of the trace in [`SweepResult::traces`].
    pub trace: usize,
    /// The references that look the caches up: `data`, `fetches` or `everything`.
    pub serves: String,
    /// Bytes of a line.
    pub line_bytes: u32,
    /// References; each counts once per 32 bytes that it touches, whatever the line.
    pub references: u64,
    /// Numbers of sets, ascending.
    pub sets: Vec<u32>,
    /// Numbers of ways, ascending.
    pub ways: Vec<u32>,
    /// First touches of lines, which miss in every cache.
    pub compulsory: u64,
    /// Misses, besides the compulsory ones, of the fully associative LRU cache of the same size: a list for each number
    /// of sets, with a count for each number of ways.
    pub capacity: Vec<Vec<u64>>,
    /// The other misses, in the same lists. Negative if the sets keep lines that the fully associative cache replaces.
    pub conflict: Vec<Vec<i64>>,
}

/// One cache of a [`CacheFamilyCell`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheMisses {
    /// Sets.
    pub sets: u32,
    /// Ways.
    pub ways: u32,
    /// Size in bytes.
    pub bytes: u64,
    /// Compulsory and capacity misses: those of the fully associative cache.
    pub full: u64,
    /// Conflict misses.
    pub conflict: i64,
}

impl CacheMisses {
    /// All misses.
    pub fn all(&self) -> u64 {
        self.full.saturating_add_signed(self.conflict)
    }
}

impl CacheFamilyCell {
    /// All caches, by sets, then ways.
    pub fn caches(&self) -> impl Iterator<Item = CacheMisses> + '_ {
        let rows = self.sets.iter().zip(self.capacity.iter().zip(&self.conflict));
        rows.flat_map(move |(&sets, (capacity, conflict))| {
            let columns = self.ways.iter().zip(capacity.iter().zip(conflict));
            columns.map(move |(&ways, (&capacity, &conflict))| CacheMisses {
                sets,
                ways,
                bytes: (u64::from(sets) * u64::from(ways)).saturating_mul(self.line_bytes.into()),
                full: self.compulsory.saturating_add(capacity),
                conflict,
            })
        })
    }
}

/// A miss-ratio curve: misses of fully associative LRU arrays of 4 KiB pages, by size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CurveCell {
    /// Index of the trace in [`SweepResult::traces`].
    pub trace: usize,
    /// The references that look the arrays up: `data`, `fetches` or `everything`.
    pub serves: String,
    /// References; each counts once per 4 KiB page that it touches.
    pub references: u64,
    /// How the curve was computed.
    pub method: Method,
    /// Entries of the arrays, ascending.
    pub entries: Vec<u64>,
    /// Misses at each number of entries; estimates if the method samples.
    pub misses: Vec<f64>,
    /// Standard errors of the estimates, in misses; empty if the curve is exact.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub standard_errors: Vec<f64>,
}

/// How a curve was computed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// From every reference.
    Exact,
    /// SHARDS with a fixed rate: from a fixed share of pages (Waldspurger et al. 2015).
    FixedRate {
        /// The share of pages.
        rate: f64,
    },
    /// SHARDS with a fixed size: from a bounded number of pages.
    FixedSize {
        /// Most pages in the sample.
        pages: u64,
        /// The share of pages in the sample at the end.
        rate: f64,
    },
}

impl Method {
    /// `exact`, `fixed_rate` or `fixed_size`.
    pub fn name(&self) -> &'static str {
        match self {
            Method::Exact => "exact",
            Method::FixedRate { .. } => "fixed_rate",
            Method::FixedSize { .. } => "fixed_size",
        }
    }
}

/// A published finding, with this study's quotients of the same kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// What it compares, in a few words.
    pub title: String,
    /// The source.
    pub source: String,
    /// The finding, in the source's words or numbers.
    pub said: String,
    /// The least quotient that agrees.
    pub least: Option<f64>,
    /// The largest quotient that agrees.
    pub most: Option<f64>,
    /// The traces on which it must hold: `all`, `some`, `most`, or `average` for their mean.
    pub on: String,
    /// Whether the study fails if it does not hold.
    #[serde(default)]
    pub strict: bool,
    /// The quotient on each trace, or on each trace and machine.
    pub found: Vec<TraceQuotient>,
    /// Cases left out, because the study's condition does not hold or the program was killed for lack of memory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<SkippedCase>,
    /// Whether the study agrees with the source.
    pub agrees: bool,
}

impl Comparison {
    /// The mean numerator over the mean denominator; `None` if that is 0.
    pub fn mean(found: &[TraceQuotient]) -> Option<f64> {
        let sum = |part: fn(&TraceQuotient) -> f64| found.iter().map(part).sum::<f64>();
        let (upper, lower) = (sum(|found| found.upper), sum(|found| found.lower));
        (lower != 0.0).then(|| upper / lower)
    }

    /// The mean numerator and the mean denominator; `None` if there are none.
    pub fn means(found: &[TraceQuotient]) -> Option<(f64, f64)> {
        let mean = |part: fn(&TraceQuotient) -> f64| found.iter().map(part).sum::<f64>() / found.len() as f64;
        (!found.is_empty()).then(|| (mean(|found| found.upper), mean(|found| found.lower)))
    }
}

/// A case that a comparison leaves out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SkippedCase {
    /// Index of the trace in [`SweepResult::traces`].
    pub trace: usize,
    /// The machine, if the comparison names several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// A quotient on one trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TraceQuotient {
    /// Index of the trace in [`SweepResult::traces`].
    pub trace: usize,
    /// The machine, if the comparison names several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// The numerator.
    pub upper: f64,
    /// The denominator.
    pub lower: f64,
    /// Whether the quotient lies within the bounds.
    pub agrees: bool,
}

impl TraceQuotient {
    /// The quotient; `None` if the denominator is 0.
    pub fn quotient(&self) -> Option<f64> {
        (self.lower != 0.0).then(|| self.upper / self.lower)
    }
}
