//! The result of `pagewalk advise`, as data. `--json` writes exactly this.
//!
//! Seconds are of processor time, in user mode and in the kernel. Every figure of time is *measured* (runs of the
//! program) or *modelled* (what lies between them); memory is *modelled*.

use crate::classes::{Class, Classes, classes};
use serde::{Deserialize, Serialize};

/// The schema name that every result carries.
pub const ADVICE_SCHEMA: &str = "pagewalk.advice/1";

/// What was found for one program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Always {
    /// Processor time.
    pub forecast: ForecastSeconds,
    /// Memory that would be backed and not touched, in MiB.
    pub memory_mib: f64,
}

/// Runs of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
}

/// A time with its 90 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AdvisedRange {
    /// As the plan names it.
    pub name: String,
    /// Its bytes.
    pub bytes: u64,
    /// Seconds that it saves by fewer and shorter walks.
    pub walk_seconds: f64,
    /// Seconds that it saves by fewer first touches; below 0 if clearing huge pages takes longer.
    pub fault_seconds: f64,
    /// Memory that would be backed and not touched, in MiB.
    pub memory_mib: f64,
}
