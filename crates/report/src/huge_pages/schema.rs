//! The result of `pagewalk advise`, as data. `--json` writes exactly this.
//!
//! Seconds are processor time, in user mode and in the kernel. Times are *measured* (runs of the program) or
//! *modelled* (differences between runs); memory is *modelled*.

use crate::classes::{Class, Classes, classes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The schema name that every result carries.
pub const ADVICE_SCHEMA: &str = "pagewalk.advice/1";

/// The advice for one program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AdviceResult {
    /// [`ADVICE_SCHEMA`].
    pub schema: String,
    /// Version of pagewalk.
    pub version: String,
    /// Path of the analysed program.
    pub program: String,
    /// The command.
    pub command: Vec<String>,
    /// The simulated machine.
    pub machine: String,
    /// The host's kernel.
    pub kernel: String,
    /// Its mode of transparent huge pages.
    pub thp: String,
    /// Simulated instructions.
    pub instructions: u64,
    /// Walks of the program as it is.
    pub walks: u64,
    /// Walks with huge pages wherever possible.
    pub huge_walks: u64,
    /// Classes of figures that do not carry their own: [`figures`].
    pub classes: Classes,
    /// The runs by kind; the program as it is comes first.
    pub runs: Vec<RunTiming>,
    /// Memory used and freed before each run, in MiB, so that the host has free memory ready; none if not requested.
    pub warmed_mib: Option<f64>,
    /// Share of walks that wait for the walk before, derived from the runs; none without a trial.
    pub waiting: Option<f64>,
    /// The ranges to put on huge pages; empty if nothing pays.
    pub ranges: Vec<AdvisedRange>,
    /// The time with all these ranges on huge pages.
    pub forecast: ForecastSeconds,
    /// That time as a part of the program's time as it is. On a busy host it is more reliable than the seconds, because
    /// the runs took turns.
    pub forecast_share: ForecastShare,
    /// How the forecast combines the trial and the model; none without a trial.
    #[serde(default)]
    pub estimates: Option<Estimates>,
    /// Assumptions for prices that this host's probe could not measure.
    #[serde(default)]
    pub assumed: Vec<AssumedFigure>,
    /// Host settings that forbid huge pages which would pay.
    #[serde(default)]
    pub host_forbids: Vec<HostSetting>,
    /// Memory that grew by less than a huge page at a time; none if it is little.
    #[serde(default)]
    pub grown: Option<GrownMemory>,
    /// Memory that huge pages would back and the program would not touch, in MiB.
    pub memory_mib: f64,
    /// The forecast for the kernel's mode `always`; none if the host is in that mode.
    pub always: Option<AlwaysForecast>,
    /// The advice, in a sentence.
    pub verdict: String,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

/// The classes of a result's figures.
pub fn figures() -> Classes {
    classes(&[
        (Class::Measured, &["instructions", "runs", "warmed_mib"]),
        (Class::Modelled, &["walks", "huge_walks", "waiting", "ranges", "memory_mib"]),
    ])
}

/// The forecast with all memory on huge pages, whether it pays or not.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AlwaysForecast {
    /// Processor time.
    pub forecast: ForecastSeconds,
    /// Memory that huge pages would back and the program would not touch, in MiB.
    pub memory_mib: f64,
}

/// Runs of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunTiming {
    /// The kind: `as it is`, `all ranges`, `glibc.malloc.hugetlb=1`.
    pub what: String,
    /// Processor seconds of each.
    pub seconds: Vec<f64>,
    /// Their median with its 90 % interval.
    pub median: ForecastSeconds,
    /// Mean wall-clock seconds; none for runs that the user timed.
    pub wall_seconds: Option<f64>,
    /// Peak resident memory of the largest run, in MiB; none for runs that the user timed.
    pub resident_mib: Option<f64>,
    /// The time as a share of the paired run `as it is`; none for those runs themselves.
    #[serde(default)]
    pub share: Option<ForecastShare>,
}

/// The time with all ranges that could pay, as a part of the program's time as it is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Estimates {
    /// By the model alone.
    pub model: ForecastShare,
    /// By the trial alone; the interval includes the variation between occasions.
    pub trial: ForecastShare,
    /// Both, weighted by precision: the basis of the forecast.
    pub joined: ForecastShare,
}

/// An assumption for a figure that could not be measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AssumedFigure {
    /// The probe's name for the figure.
    pub figure: String,
    /// `modelled`.
    pub class: Class,
    /// `ns` or `entries`.
    pub unit: String,
    /// The assumed value.
    pub value: f64,
    /// Its likely lower bound.
    pub low: f64,
    /// Its likely upper bound.
    pub high: f64,
    /// Why it could not be measured.
    pub why: String,
}

/// Memory that grew by less than a huge page at a time, so that the kernel keeps it on small pages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GrownMemory {
    /// `modelled`.
    pub class: Class,
    /// 2 MiB regions first touched before a mapping held all of them.
    pub blocks: u64,
    /// Their MiB.
    pub mib: f64,
    /// Walks in them as the program is.
    pub walks: u64,
    /// What to do.
    pub remedy: String,
}

/// A host setting that forbids huge pages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostSetting {
    /// Its file.
    pub file: String,
    /// Its value.
    pub value: String,
    /// What it prevents.
    pub effect: String,
    /// The command that changes it.
    pub allow: String,
}

/// A time with its 90 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ForecastSeconds {
    /// `measured` or `modelled`.
    pub class: Class,
    /// Seconds.
    pub seconds: f64,
    /// The lower end; none if unknown.
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
    /// Its name in the plan.
    pub name: String,
    /// The function and line that asked for it, as `build (graph.c:13)`; null where that is not known.
    #[serde(default)]
    pub made_by: Option<String>,
    /// Its bytes.
    pub bytes: u64,
    /// Seconds saved by fewer and shorter walks.
    pub walk_seconds: f64,
    /// Seconds saved by fewer first touches; below 0 if clearing huge pages takes longer.
    pub fault_seconds: f64,
    /// Memory that huge pages would back and the program would not touch, in MiB.
    pub memory_mib: f64,
}
