//! The result of `sweep --status`.

use crate::classes::Classes;
use schemars::JsonSchema;
use serde::Serialize;

/// Schema of what this version writes.
pub const SWEEP_STATUS_SCHEMA: &str = "pagewalk.sweep-status/1";

/// How far a study is, and who works on it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SweepStatusResult {
    /// [`SWEEP_STATUS_SCHEMA`].
    pub schema: &'static str,
    /// The study's name.
    pub name: String,
    /// Units of work in all.
    pub units: u64,
    /// Units that are done.
    pub units_done: u64,
    /// Seconds until all are done, at the speed since the oldest worker began. `None` if nobody works or nothing was
    /// done since.
    pub seconds_left: Option<f64>,
    /// The processes at work.
    pub workers: Vec<SweepWorker>,
    /// Jobs that are not done: units that share a pass over a trace.
    pub jobs: Vec<SweepJob>,
    /// The class of each figure, by its name.
    pub classes: Classes,
}

/// A process that works on a study.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SweepWorker {
    /// Its host's name.
    pub host: String,
    /// Its process number there.
    pub pid: u32,
    /// Seconds since it began.
    pub seconds: u64,
    /// What it works on now.
    pub jobs: Vec<String>,
}

/// A job that is not done.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SweepJob {
    /// What it is.
    pub title: String,
    /// Its units of work.
    pub units: u64,
    /// Units of it that are done.
    pub units_done: u64,
}
