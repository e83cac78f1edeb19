//! What `apply`, `undo` and `verify` tell of a plan.

use super::End;
use super::layout_run::LaidImage;
use crate::classes::Classes;
use schemars::JsonSchema;
use serde::Serialize;

/// Schema of what `apply` writes.
pub const APPLY_SCHEMA: &str = "pagewalk.apply/1";
/// Schema of what `undo` writes.
pub const UNDO_SCHEMA: &str = "pagewalk.undo/1";
/// Schema of what `verify` writes.
pub const VERIFY_SCHEMA: &str = "pagewalk.verify/1";

/// What came of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum ApplyResult {
    /// A program was run with it.
    Run(AppliedRun),
    /// It was applied to a process (`--pid`).
    Process(AppliedProcess),
    /// Nothing was done (`--dry-run`).
    Dry(AppliedDry),
}

/// The plan's file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PlanFile {
    /// Its path.
    pub file: String,
    /// The program that it is for.
    pub program: String,
    /// Its ranges.
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
    /// How it ended.
    pub end: End,
    /// Seconds that it took.
    pub seconds: f64,
    /// Its processor time, in seconds.
    pub processor_seconds: f64,
    /// Bytes that were resident at most; null where that is no more than pagewalk itself had.
    pub resident_bytes: Option<u64>,
    /// What figures are.
    pub classes: Classes,
    /// The host's mode of huge pages.
    pub mode: &'static str,
    /// Whether all planned ranges that were there came on huge pages.
    pub in_effect: bool,
    /// One for each image of the plan's program.
    pub images: Vec<PlannedImage>,
    /// Where the planned libraries lay in every image; empty where the plan places none.
    pub libraries: Vec<LaidImage>,
    /// Other programs that ran, without a plan.
    pub other_programs: Vec<String>,
    /// What should be known, in words.
    pub notes: Vec<String>,
}

/// An image of the plan's program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PlannedImage {
    /// The process.
    pub process: i32,
    /// The program.
    pub program: String,
    /// Why it ran without the plan; null if it did not.
    pub obstacle: Option<String>,
    /// The plan's ranges in it.
    pub ranges: Vec<PlannedRange>,
}

/// What came of a range in an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PlannedRange {
    /// The range, as the plan calls it.
    pub range: String,
    /// Its address, in hexadecimal; null where it was never there.
    pub start: Option<String>,
    /// Who mapped it: file and offset.
    pub caller: Option<String>,
    /// Bytes that were marked for huge pages.
    pub marked_bytes: u64,
    /// Bytes that were collapsed.
    pub collapsed_bytes: u64,
    /// Bytes that were mapped, when most of it was on huge pages.
    pub mapped_bytes: u64,
    /// Bytes of whole blocks of 2 MiB, then.
    pub whole_block_bytes: u64,
    /// Bytes of such blocks with a page in them, then.
    pub touched_block_bytes: u64,
    /// Resident bytes, then.
    pub resident_bytes: u64,
    /// Bytes on huge pages, then.
    pub huge_bytes: u64,
    /// Bytes on huge pages when it was looked at last.
    pub huge_bytes_last: Option<u64>,
    /// Why it is not on huge pages, or is by another's doing.
    pub reason: Option<String>,
    /// Whether it is on huge pages.
    pub in_effect: bool,
}

/// A process that a plan was applied to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AppliedProcess {
    /// [`APPLY_SCHEMA`].
    pub schema: &'static str,
    /// The plan.
    pub plan: PlanFile,
    /// The process.
    pub process: i32,
    /// The process that traces it; 0 for none.
    pub tracer: i32,
    /// The host's mode of huge pages.
    pub mode: &'static str,
    /// Whether nothing was done.
    pub dry_run: bool,
    /// Whether all planned ranges are on huge pages.
    pub in_effect: bool,
    /// What figures are.
    pub classes: Classes,
    /// The plan's ranges.
    pub ranges: Vec<AttachedRange>,
    /// What this host lacks for it, in words.
    pub missing: Vec<String>,
    /// What should be known, in words.
    pub notes: Vec<String>,
}

/// A planned range of a running process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AttachedRange {
    /// The range, as the plan calls it.
    pub range: String,
    /// Its address, in hexadecimal; null where it is not there.
    pub start: Option<String>,
    /// Mapped bytes.
    pub mapped_bytes: u64,
    /// Bytes of whole blocks of 2 MiB.
    pub whole_block_bytes: u64,
    /// Bytes of such blocks with a page in them.
    pub touched_block_bytes: u64,
    /// Bytes on huge pages before.
    pub huge_bytes_before: u64,
    /// Bytes on huge pages now.
    pub huge_bytes: u64,
    /// What the kernel said; null if nothing failed.
    pub error: Option<String>,
    /// Whether it is on huge pages.
    pub in_effect: bool,
    /// Why it is not.
    pub reason: Option<String>,
    /// What would be done; null where something was.
    pub would: Option<String>,
}

/// What a plan would do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AppliedDry {
    /// [`APPLY_SCHEMA`].
    pub schema: &'static str,
    /// True.
    pub dry_run: bool,
    /// The plan.
    pub plan: PlanFile,
    /// The host's mode of huge pages.
    pub mode: &'static str,
    /// Free blocks of 2 MiB; null where the kernel does not tell.
    pub free_blocks: Option<u64>,
    /// What figures are.
    pub classes: Classes,
    /// What would be done to each range.
    pub ranges: Vec<Step>,
    /// What this host lacks for it, in words.
    pub missing: Vec<String>,
    /// What should be known, in words.
    pub notes: Vec<String>,
}

/// What would be done to a range or a library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Step {
    /// The range, as the plan calls it, or the library's file.
    pub range: String,
    /// What would be done.
    pub would: String,
}

/// What was taken back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UndoResult {
    /// [`UNDO_SCHEMA`].
    pub schema: &'static str,
    /// The plan.
    pub plan: PlanFile,
    /// The process.
    pub process: i32,
    /// Whether nothing was done.
    pub dry_run: bool,
    /// Bytes that are still on huge pages.
    pub huge_bytes: u64,
    /// Bytes that stay marked for them.
    pub marked_bytes: u64,
    /// What figures are.
    pub classes: Classes,
    /// The plan's ranges.
    pub ranges: Vec<AttachedRange>,
    /// What this host lacks for it, in words.
    pub missing: Vec<String>,
}

/// What a plan brings, measured.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct VerifyResult {
    /// [`VERIFY_SCHEMA`].
    pub schema: &'static str,
    /// The plan.
    pub plan: VerifiedPlan,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// How it ended.
    pub end: End,
    /// The host's mode of huge pages.
    pub mode: &'static str,
    /// Runs without the plan.
    pub without: Vec<RunTimes>,
    /// Runs with it, each the pair of the one at its place.
    pub with: Vec<RunTimes>,
    /// What ended the measuring.
    pub stopped_by: &'static str,
    /// MiB that were used and freed before each run; null where that was not asked for.
    pub warmed_mib: Option<f64>,
    /// What intervals are.
    pub interval: &'static str,
    /// Seconds saved.
    pub seconds_saved: Interval,
    /// Processor time saved, in seconds.
    pub processor_seconds_saved: Interval,
    /// Processor time with the plan, as a share of that without.
    pub processor_share: Share,
    /// Processor time saved, as forecast; null where the plan forecasts none.
    pub forecast_processor_seconds_saved: Option<Interval>,
    /// The share, as forecast; null likewise.
    pub forecast_processor_share: Option<f64>,
    /// What figures are.
    pub classes: Classes,
    /// Whether all planned ranges that were there came on huge pages.
    pub in_effect: bool,
    /// One for each image of the plan's program, of the last run.
    pub images: Vec<PlannedImage>,
    /// Where the planned libraries lay in every image; empty where the plan places none.
    pub libraries: Vec<LaidImage>,
    /// Other programs that ran, without a plan.
    pub other_programs: Vec<String>,
    /// What should be known, in words.
    pub notes: Vec<String>,
}

/// The plan that was verified.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct VerifiedPlan {
    /// The program that it is for.
    pub program: String,
    /// Its ranges.
    pub ranges: usize,
}

/// What a run took.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RunTimes {
    /// Seconds.
    pub seconds: f64,
    /// Processor time, in seconds.
    pub processor_seconds: f64,
}

/// A figure in an interval, whose ends are null where so few runs do not bound it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Interval {
    /// The middle.
    pub mean: Option<f64>,
    /// The lower end.
    pub low: Option<f64>,
    /// The upper end.
    pub high: Option<f64>,
}

impl Interval {
    /// Of numbers of which those that are not finite are unknown.
    pub fn of(mean: f64, low: f64, high: f64) -> Interval {
        let finite = |value: f64| Some(value).filter(|value| value.is_finite());
        Interval { mean: finite(mean), low: finite(low), high: finite(high) }
    }
}

/// A share in an interval, whose ends are null where so few runs do not bound it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Share {
    /// The share, of 1.
    pub share: Option<f64>,
    /// The lower end.
    pub low: Option<f64>,
    /// The upper end.
    pub high: Option<f64>,
}
