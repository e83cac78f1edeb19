//! The result of a sweep, as data. `--json` writes exactly this; Parquet, tables and pictures are made from it.

use crate::metrics::Registered;
use crate::schema::{Metrics, PartitionMove};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The schema name that every sweep's result carries.
pub const SWEEP_SCHEMA: &str = "pagewalk.sweep/1";

/// What a study found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SweepResult {
    /// [`SWEEP_SCHEMA`].
    pub schema: String,
    /// Version of pagewalk.
    pub version: String,
    /// The study's name.
    pub name: String,
    /// Its title, for people.
    pub title: String,
    /// The streams, in the study's order. Other lists name them by their place here.
    pub traces: Vec<SweepTrace>,
    /// Plans of layouts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plans: Vec<MadePlan>,
    /// Machines on traces: trace by trace, in each the machines in the study's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<MachineCell>,
    /// Families on traces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub families: Vec<FamilyCell>,
    /// Miss-ratio curves of traces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curves: Vec<CurveCell>,
    /// What was found beside what the sources found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub comparisons: Vec<Comparison>,
    /// Tables that sources printed, to be read beside what was found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<Published>,
    /// Pictures of machines that the study asks for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plots: Vec<Plot>,
}

/// A picture of metrics against a varied key, for each trace and each choice of the keys that it does not name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Plot {
    /// What it shows.
    pub title: String,
    /// Whose figure it is to be held against, and what that shows; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// The varied key of its axis, with whole numbers; or [`Plot::TIME`], and then `y` is [`Plot::PARTITION`] alone; or
    /// [`Plot::MACHINE`], and then each machine has a bar whose parts are `y`.
    pub x: String,
    /// Metrics of machines: a line for each.
    pub y: Vec<String>,
    /// A key, or `trace`, `machine`, `os` or `structure`, with a line for each of its values.
    pub lines: Option<String>,
    /// Keys, or those, of which one value alone is shown.
    #[serde(default, skip_serializing_if = "Parameters::is_empty")]
    pub at: Parameters,
    /// Whether the axis is logarithmic.
    #[serde(default)]
    pub logarithmic: bool,
}

impl Plot {
    /// The axis of what changes while a program runs.
    pub const TIME: &str = "instructions";
    /// The one metric that is known over time: slots below a partition that moves.
    pub const PARTITION: &str = "partition.lower";
    /// The axis of machines side by side.
    pub const MACHINE: &str = "machine";

    /// Whether it shows what changes while a program runs.
    pub fn is_over_time(&self) -> bool {
        self.x == Plot::TIME
    }

    /// Whether it shows machines side by side, as bars.
    pub fn is_by_machine(&self) -> bool {
        self.x == Plot::MACHINE
    }
}

/// A table that a source printed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Published {
    /// What it shows, with its unit.
    pub title: String,
    /// Who printed it, and where.
    pub source: String,
    /// Which table of the result it is read beside: `misses`, `time` or `memory` of kernels, or `layouts`.
    pub beside: String,
    /// Titles of its columns of figures.
    pub columns: Vec<String>,
    /// Its rows.
    pub rows: Vec<PublishedRow>,
}

/// A row of a [`Published`] table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PublishedRow {
    /// What it is of.
    pub name: String,
    /// The figures as they were printed, one for each column.
    pub values: Vec<String>,
}

/// One stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SweepTrace {
    /// Its name in the study.
    pub name: String,
    /// Path of the program.
    pub program: String,
    /// Its command line.
    pub command_line: Vec<String>,
    /// BLAKE3 hash of the trace file, in hex: which bytes the figures are of. Where several traces take turns, of their
    /// hashes and of where turns end; then the program is the first of them.
    pub fingerprint: String,
    /// Transparent huge page mode in which the machines ran: `always`, `madvise` or `never`.
    pub thp: String,
    /// Instructions executed.
    pub instructions: u64,
    /// Data references.
    pub references_data: u64,
}

/// A value that a study gave a machine's key: a number, a text, or what else TOML has, as TOML writes it.
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

/// Values by the keys that they were given to, such as `tlb.l2.entries`.
pub type Parameters = BTreeMap<String, Value>;

/// One machine on one trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MachineCell {
    /// Place of the trace in [`SweepResult::traces`].
    pub trace: usize,
    /// The machine's name.
    pub machine: String,
    /// The kernel's name, where the study names kernels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub os: Option<String>,
    /// The structure of the operating system around the program, where the study names structures: counters are of the
    /// kernel's and the servers' references too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structure: Option<String>,
    /// The layout of shared objects, where the study names layouts; then there are counters of `last_level` too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<String>,
    /// What the layout was drawn by, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout_seed: Option<u64>,
    /// What the study changed of it.
    #[serde(default, skip_serializing_if = "Parameters::is_empty")]
    pub parameters: Parameters,
    /// Its counters: those of `pagewalk simulate`.
    #[schemars(with = "Registered")]
    pub metrics: Metrics,
    /// Where the partition of a software-managed TLB went, its start first; empty where it does not move.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partition: Vec<PartitionMove>,
}

impl MachineCell {
    /// Whether its program was killed for want of memory: figures end there, and stand beside no other's.
    pub fn was_killed(&self) -> bool {
        self.metrics.contains_key("kernel.killed_at")
    }
}

/// A plan of where shared objects are to lie.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MadePlan {
    /// Place of the trace that it was made from in [`SweepResult::traces`].
    pub trace: usize,
    /// The layout's name.
    pub layout: String,
    /// What it was drawn by, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout_seed: Option<u64>,
    /// The machine that it was made for, with the values that the study gave it; none: for all.
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
    /// Place of the trace in [`SweepResult::traces`].
    pub trace: usize,
    /// Which references the arrays see: `data`, `fetches` or `everything`.
    pub serves: String,
    /// References: one for each 4 KiB page that a reference touches.
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
    /// Set counts, ascending.
    pub sets: Vec<u32>,
    /// Numbers of ways, ascending.
    pub ways: Vec<u32>,
    /// Misses: a list for each set count, with a number for each number of ways.
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

/// The misses of fully associative LRU arrays of 4 KiB pages, by size: a miss-ratio curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CurveCell {
    /// Place of the trace in [`SweepResult::traces`].
    pub trace: usize,
    /// Which references the arrays see: `data`, `fetches` or `everything`.
    pub serves: String,
    /// References: one for each 4 KiB page that a reference touches.
    pub references: u64,
    /// How the curve was taken.
    pub method: Method,
    /// Entries of the arrays, ascending.
    pub entries: Vec<u64>,
    /// Misses with so many entries; estimates where the method samples.
    pub misses: Vec<f64>,
    /// Standard errors of those estimates, in misses; empty where the curve is exact.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub standard_errors: Vec<f64>,
}

/// How a curve was taken.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Every reference counted.
    Exact,
    /// SHARDS: a sample of pages, a fixed part of all (Waldspurger et al. 2015).
    FixedRate {
        /// The part.
        rate: f64,
    },
    /// SHARDS: a sample of pages whose number stays bounded.
    FixedSize {
        /// Most pages in the sample.
        pages: u64,
        /// The part of all pages that the sample was at the end.
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

/// What a source found, and what this study found of the same kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// What is compared, in a few words.
    pub title: String,
    /// Who found it, and where it is written.
    pub source: String,
    /// What the source found, in its words or numbers.
    pub said: String,
    /// The least quotient that agrees.
    pub least: Option<f64>,
    /// The largest quotient that agrees.
    pub most: Option<f64>,
    /// On how many traces it must be found: `all`, `some`, `most`, or as their mean: `average`.
    pub on: String,
    /// Whether the study fails where it is not found.
    #[serde(default)]
    pub strict: bool,
    /// The quotient found on each trace, or on each trace and machine; none where its lower part is 0.
    pub found: Vec<Found>,
    /// Where it was not asked, as what the study makes a condition is not so, or a program was killed for want of
    /// memory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
    /// Whether what was found agrees with the source.
    pub agrees: bool,
}

impl Comparison {
    /// The mean of the upper parts to that of the lower parts; `None` where those are all 0.
    pub fn mean(found: &[Found]) -> Option<f64> {
        let sum = |part: fn(&Found) -> f64| found.iter().map(part).sum::<f64>();
        let (upper, lower) = (sum(|found| found.upper), sum(|found| found.lower));
        (lower != 0.0).then(|| upper / lower)
    }

    /// The mean of the upper parts, and that of the lower ones; `None` where there are none.
    pub fn means(found: &[Found]) -> Option<(f64, f64)> {
        let mean = |part: fn(&Found) -> f64| found.iter().map(part).sum::<f64>() / found.len() as f64;
        (!found.is_empty()).then(|| (mean(|found| found.upper), mean(|found| found.lower)))
    }
}

/// Where something was not asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftOut {
    /// Place of the trace in [`SweepResult::traces`].
    pub trace: usize,
    /// The machine, where the comparison names several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
}

/// A quotient on one trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Found {
    /// Place of the trace in [`SweepResult::traces`].
    pub trace: usize,
    /// The machine, where the comparison names several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// The upper part.
    pub upper: f64,
    /// The lower part.
    pub lower: f64,
    /// Whether their quotient lies within the bounds.
    pub agrees: bool,
}

impl Found {
    /// The quotient; `None` if the lower part is 0.
    pub fn quotient(&self) -> Option<f64> {
        (self.lower != 0.0).then(|| self.upper / self.lower)
    }
}
