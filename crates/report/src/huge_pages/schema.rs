//! The result of `pagewalk advise`, as data. `--json` writes exactly this.
//!
//! Seconds are of processor time, in user mode and in the kernel. Every figure of time is *measured* (runs of the
//! program) or *modelled* (what lies between them); memory is *modelled*.

use crate::classes::{Class, Classes, classes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The schema name that every result carries.
pub const ADVICE_SCHEMA: &str = "pagewalk.advice/1";

/// What was found for one program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AdviceResult {
    /// [`ADVICE_SCHEMA`].
    pub schema: String,
    /// Version of pagewalk.
    pub version: String,
    /// Path of the program whose memory was looked at.
    pub program: String,
    /// The command.
    pub command: Vec<String>,
    /// Machine that was simulated.
    pub machine: String,
    /// The host's kernel.
    pub kernel: String,
    /// Its mode of transparent huge pages.
    pub thp: String,
    /// Instructions that were simulated.
    pub instructions: u64,
    /// Walks as it is now.
    pub walks: u64,
    /// Walks with huge pages wherever they can be.
    pub huge_walks: u64,
    /// What figures are that do not say it themselves: [`figures`].
    pub classes: Classes,
    /// What was run, the program as it is first.
    pub runs: Vec<Runs>,
    /// Memory that was used and freed before each of them, in MiB, so that they found memory that is there; none where
    /// that was not asked for.
    pub warmed_mib: Option<f64>,
    /// Share of walks that wait for the one before, as the runs show it; none without a trial.
    pub waiting: Option<f64>,
    /// The ranges to put on huge pages; none if nothing pays.
    pub ranges: Vec<AdvisedRange>,
    /// With all of them.
    pub forecast: ForecastSeconds,
    /// The same as a part of what the program takes as it is; surer than the seconds where the host is busy with other
    /// things, as runs took turns.
    pub forecast_share: ForecastShare,
    /// How the forecast was made of the trial and the model; none without a trial.
    #[serde(default)]
    pub estimates: Option<Estimates>,
    /// Prices that this host's probe could not measure, and what was taken for them.
    #[serde(default)]
    pub assumed: Vec<AssumedFigure>,
    /// Settings of the host that keep from huge pages what would pay.
    #[serde(default)]
    pub host_forbids: Vec<HostSetting>,
    /// Memory that grew by less than huge pages at a time; none if that is little.
    #[serde(default)]
    pub grown: Option<GrownMemory>,
    /// Memory that would be backed and not touched, in MiB.
    pub memory_mib: f64,
    /// What the kernel's mode `always` would bring instead; none where it is the host's.
    pub always: Option<Always>,
    /// What to do, in a sentence.
    pub verdict: String,
    /// What should be known beside.
    pub notes: Vec<String>,
}

/// What the figures of a result are.
pub fn figures() -> Classes {
    classes(&[
        (Class::Measured, &["instructions", "runs", "warmed_mib"]),
        (Class::Modelled, &["walks", "huge_walks", "waiting", "ranges", "memory_mib"]),
    ])
}

/// All memory on huge pages, whether it pays or not.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Always {
    /// Processor time.
    pub forecast: ForecastSeconds,
    /// Memory that would be backed and not touched, in MiB.
    pub memory_mib: f64,
}

/// Runs of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Runs {
    /// What was run: `as it is`, `all ranges`, `glibc.malloc.hugetlb=1`.
    pub what: String,
    /// Processor seconds of each.
    pub seconds: Vec<f64>,
    /// Their median with its 90 % interval.
    pub median: ForecastSeconds,
    /// Mean of the seconds from start to end; none of runs that the user timed.
    pub wall_seconds: Option<f64>,
    /// Most memory resident at a time, in MiB, of the largest run; none of those.
    pub resident_mib: Option<f64>,
    /// To what the program takes as it is, turn by turn; none of those runs themselves.
    #[serde(default)]
    pub share: Option<ForecastShare>,
}

/// What all ranges that could pay bring, as parts of what the program takes as it is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Estimates {
    /// By the model alone.
    pub model: ForecastShare,
    /// By the trial alone, with what it differs by from one occasion to another.
    pub trial: ForecastShare,
    /// One of both, each by its precision: what the forecast rests on.
    pub joined: ForecastShare,
}

/// A figure that was not measured, and what was taken for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AssumedFigure {
    /// The probe's name for it.
    pub figure: String,
    /// `modelled`.
    pub class: Class,
    /// `ns` or `entries`.
    pub unit: String,
    /// What was taken.
    pub value: f64,
    /// It is hardly below this.
    pub low: f64,
    /// Nor above this.
    pub high: f64,
    /// Why it was not measured.
    pub why: String,
}

/// Memory that grew by less than huge pages at a time, which the kernel therefore keeps on small pages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GrownMemory {
    /// `modelled`.
    pub class: Class,
    /// Blocks of 2 MiB that were touched before they lay whole in a mapping.
    pub blocks: u64,
    /// The same in MiB.
    pub mib: f64,
    /// Walks for pages in them as it is now.
    pub walks: u64,
    /// What to do.
    pub remedy: String,
}

/// A setting of the host that keeps memory from huge pages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostSetting {
    /// Its file.
    pub file: String,
    /// What it is.
    pub value: String,
    /// What that keeps from being done.
    pub effect: String,
    /// The command that would allow it.
    pub allow: String,
}

/// A time with its 90 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ForecastSeconds {
    /// `measured` or `modelled`.
    pub class: Class,
    /// Seconds.
    pub seconds: f64,
    /// The lower end; none if too little is known.
    pub low: Option<f64>,
    /// The upper end.
    pub high: Option<f64>,
}

/// A part of a run's time, with its 90 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ForecastShare {
    /// `modelled`.
    pub class: Class,
    /// The part.
    pub share: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// A range of memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AdvisedRange {
    /// As the plan names it.
    pub name: String,
    /// The function and line that asked for it, as `build (graph.c:13)`; null where that is not known.
    #[serde(default)]
    pub made_by: Option<String>,
    /// Its bytes.
    pub bytes: u64,
    /// Seconds that it saves by fewer and shorter walks.
    pub walk_seconds: f64,
    /// Seconds that it saves by fewer first touches; below 0 if clearing huge pages takes longer.
    pub fault_seconds: f64,
    /// Memory that would be backed and not touched, in MiB.
    pub memory_mib: f64,
}
