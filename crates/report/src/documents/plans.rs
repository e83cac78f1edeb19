//! The results of `apply`, `undo` and `verify`.

use super::End;
use super::layout_run::PlacedImage;
use crate::classes::Classes;
use schemars::JsonSchema;
use serde::Serialize;

/// Schema of `apply`.
pub const APPLY_SCHEMA: &str = "pagewalk.apply/1";
/// Schema of `undo`.
pub const UNDO_SCHEMA: &str = "pagewalk.undo/1";
/// Schema of `verify`.
pub const VERIFY_SCHEMA: &str = "pagewalk.verify/1";

/// The outcome of applying a plan.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum ApplyResult {
    /// A program ran with it.
    Run(AppliedRun),
    /// A process got it (`--pid`).
    Process(AppliedProcess),
    /// A dry run (`--dry-run`).
    Dry(PlanDryRun),
}

/// The plan's file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PlanFile {
    /// Its path.
    pub file: String,
    /// Its program.
    pub program: String,
    /// Its number of ranges.
    pub ranges: usize,
}

/// A run with a plan.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AppliedRun {
    /// [`APPLY_SCHEMA`].
    pub schema: &'static str,
    /// The plan.
    pub plan: PlanFile,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// How the program ended.
    pub end: End,
    /// Seconds that it took.
    pub seconds: f64,
    /// Its processor time, in seconds.
    pub processor_seconds: f64,
    /// Peak resident bytes; null if that is no more than pagewalk's own.
    pub resident_bytes: Option<u64>,
    /// Classes of figures.
    pub classes: Classes,
    /// The host's mode of huge pages.
    pub mode: &'static str,
    /// Whether every planned range that existed came onto huge pages, and every loaded library to its place.
    pub in_effect: bool,
    /// One for each image of the plan's program.
    pub images: Vec<PlannedImage>,
    /// Where the planned libraries lay in every image; empty where the plan places none.
    pub libraries: Vec<PlacedImage>,
    /// Other programs that ran, without a plan.
    pub other_programs: Vec<String>,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

/// An image of the plan's program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PlannedImage {
    /// The process.
    pub process: i32,
    /// The program.
    pub program: String,
    /// Why it ran without the plan; null if it ran with it.
    pub obstacle: Option<String>,
    /// The plan's ranges in it.
    pub ranges: Vec<PlannedRange>,
}

/// The outcome of a range in an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PlannedRange {
    /// The range's name in the plan.
    pub range: String,
    /// Its address, in hexadecimal; null if it never existed.
    pub start: Option<String>,
    /// The code that mapped it: file and offset.
    pub caller: Option<String>,
    /// Bytes marked for huge pages.
    pub marked_bytes: u64,
    /// Bytes collapsed onto huge pages.
    pub collapsed_bytes: u64,
    /// Mapped bytes, when most of it was on huge pages.
    pub mapped_bytes: u64,
    /// Bytes in whole 2 MiB regions at that time.
    pub whole_block_bytes: u64,
    /// Bytes in such regions with a resident page at that time.
    pub touched_block_bytes: u64,
    /// Resident bytes at that time.
    pub resident_bytes: u64,
    /// Bytes on huge pages at that time.
    pub huge_bytes: u64,
    /// Bytes on huge pages at the last inspection.
    pub huge_bytes_last: Option<u64>,
    /// Why it is not on huge pages, or what else put it there.
    pub reason: Option<String>,
    /// Whether it is on huge pages.
    pub in_effect: bool,
}

/// A process with a plan applied to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AppliedProcess {
    /// [`APPLY_SCHEMA`].
    pub schema: &'static str,
    /// The plan.
    pub plan: PlanFile,
    /// The process.
    pub process: i32,
    /// Its tracer; 0 for none.
    pub tracer: i32,
    /// The host's mode of huge pages.
    pub mode: &'static str,
    /// Whether this was a dry run.
    pub dry_run: bool,
    /// Whether all planned ranges are on huge pages.
    pub in_effect: bool,
    /// Classes of figures.
    pub classes: Classes,
    /// The plan's ranges.
    pub ranges: Vec<AttachedRange>,
    /// What this host lacks for the plan.
    pub missing: Vec<String>,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

/// A planned range of a running process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AttachedRange {
    /// The range's name in the plan.
    pub range: String,
    /// Its address, in hexadecimal; null if it does not exist.
    pub start: Option<String>,
    /// Mapped bytes.
    pub mapped_bytes: u64,
    /// Bytes in whole 2 MiB regions.
    pub whole_block_bytes: u64,
    /// Bytes in such regions with a resident page.
    pub touched_block_bytes: u64,
    /// Bytes on huge pages before.
    pub huge_bytes_before: u64,
    /// Bytes on huge pages now.
    pub huge_bytes: u64,
    /// The kernel's error; null if nothing failed.
    pub error: Option<String>,
    /// Whether it is on huge pages.
    pub in_effect: bool,
    /// Why it is not on huge pages.
    pub reason: Option<String>,
    /// What `apply` would do; null if it did it.
    pub would: Option<String>,
}

/// What applying a plan would do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PlanDryRun {
    /// [`APPLY_SCHEMA`].
    pub schema: &'static str,
    /// True.
    pub dry_run: bool,
    /// The plan.
    pub plan: PlanFile,
    /// The host's mode of huge pages.
    pub mode: &'static str,
    /// Free 2 MiB blocks; null if the kernel does not tell.
    pub free_blocks: Option<u64>,
    /// Classes of figures.
    pub classes: Classes,
    /// What would happen to each range.
    pub ranges: Vec<PlannedChange>,
    /// What this host lacks for the plan.
    pub missing: Vec<String>,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

/// What would be done to a range or a library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PlannedChange {
    /// The range, as the plan calls it, or the library's file.
    pub range: String,
    /// The change.
    pub would: String,
}

/// The outcome of undoing a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UndoResult {
    /// [`UNDO_SCHEMA`].
    pub schema: &'static str,
    /// The plan.
    pub plan: PlanFile,
    /// The process.
    pub process: i32,
    /// Whether this was a dry run.
    pub dry_run: bool,
    /// Bytes still on huge pages.
    pub huge_bytes: u64,
    /// Bytes still marked for huge pages.
    pub marked_bytes: u64,
    /// Classes of figures.
    pub classes: Classes,
    /// The plan's ranges.
    pub ranges: Vec<AttachedRange>,
    /// What this host lacks for the plan.
    pub missing: Vec<String>,
}

/// What a plan saves, measured.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct VerifyResult {
    /// [`VERIFY_SCHEMA`].
    pub schema: &'static str,
    /// The plan.
    pub plan: VerifiedPlan,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// What the pairs prove, as a sentence.
    pub verdict: String,
    /// How the program ended.
    pub end: End,
    /// The host's mode of huge pages.
    pub mode: &'static str,
    /// Runs without the plan.
    pub without: Vec<RunTimes>,
    /// Runs with it; the run at each index pairs with that of `without`.
    pub with: Vec<RunTimes>,
    /// What ended the measurement.
    pub stopped_by: &'static str,
    /// MiB used and freed before each run; null if not requested.
    pub warmed_mib: Option<f64>,
    /// How the intervals are defined.
    pub interval: &'static str,
    /// Seconds saved.
    pub seconds_saved: Interval,
    /// Processor time saved, in seconds.
    pub processor_seconds_saved: Interval,
    /// Processor time with the plan as a share of that without.
    pub processor_share: Share,
    /// The forecast of processor time saved, in seconds; null if the plan has none.
    pub forecast_processor_seconds_saved: Option<Interval>,
    /// The forecast of the share; null if the plan has none.
    pub forecast_processor_share: Option<f64>,
    /// Classes of figures.
    pub classes: Classes,
    /// Whether every planned range that existed came onto huge pages, and every loaded library to its place.
    pub in_effect: bool,
    /// One for each image of the plan's program in the last run.
    pub images: Vec<PlannedImage>,
    /// Where the planned libraries lay in every image; empty where the plan places none.
    pub libraries: Vec<PlacedImage>,
    /// Other programs that ran, without a plan.
    pub other_programs: Vec<String>,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

/// The plan that was verified.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct VerifiedPlan {
    /// Its program.
    pub program: String,
    /// Its number of ranges.
    pub ranges: usize,
}

/// The times of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RunTimes {
    /// Seconds.
    pub seconds: f64,
    /// Processor time, in seconds.
    pub processor_seconds: f64,
}

/// A figure with its interval; an end is null if too few runs bound it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Interval {
    /// The mean.
    pub mean: Option<f64>,
    /// The lower end.
    pub low: Option<f64>,
    /// The upper end.
    pub high: Option<f64>,
}

impl Interval {
    /// Numbers that are not finite become null.
    pub fn of(mean: f64, low: f64, high: f64) -> Interval {
        let finite = |value: f64| Some(value).filter(|value| value.is_finite());
        Interval { mean: finite(mean), low: finite(low), high: finite(high) }
    }
}

/// A share with its interval; an end is null if too few runs bound it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Share {
    /// The share, as a fraction of 1.
    pub share: Option<f64>,
    /// The lower end.
    pub low: Option<f64>,
    /// The upper end.
    pub high: Option<f64>,
}
