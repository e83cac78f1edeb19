//! What `layout run` tells.

use super::End;
use schemars::JsonSchema;
use serde::Serialize;

/// Schema of what this version writes.
pub const LAYOUT_RUN_SCHEMA: &str = "pagewalk.layout-run/1";

/// A program with its libraries at planned places.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum LayoutRunResult {
    /// It was run.
    Run(LaidRun),
    /// Nothing was run (`--dry-run`).
    Dry(LaidDry),
}

/// A run with a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LaidRun {
    /// [`LAYOUT_RUN_SCHEMA`].
    pub schema: &'static str,
    /// The plan.
    pub plan: LayoutPlanFile,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// How it ended.
    pub end: End,
    /// Whether all libraries that were loaded landed.
    pub in_effect: bool,
    /// Planned libraries that no image had when it was looked at.
    pub not_loaded: Vec<String>,
    /// One for each image of a process.
    pub images: Vec<LaidImage>,
}

/// The plan's file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LayoutPlanFile {
    /// Its path.
    pub file: String,
    /// The planner that made it.
    pub planner: String,
    /// The machines that it is for.
    pub machines: Vec<String>,
    /// The program that it is for.
    pub program: String,
    /// Where its libraries begin, in hexadecimal.
    pub arena: String,
    /// Its libraries.
    pub libraries: usize,
}

/// An image of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LaidImage {
    /// The process.
    pub process: i32,
    /// The program.
    pub program: String,
    /// Why it ran without the plan; null if it did not.
    pub obstacle: Option<String>,
    /// Bytes by which the whole plan was moved up.
    pub slid_bytes: u64,
    /// Where libraries lay at its start; null where it was not looked at.
    pub at_start: Option<Vec<LaidLibrary>>,
    /// Where they lay at its end; null likewise.
    pub at_end: Option<Vec<LaidLibrary>>,
}

/// Where a library lay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LaidLibrary {
    /// Its file.
    pub file: String,
    /// Where it was to lie, in hexadecimal.
    pub planned: String,
    /// Where it lay, in hexadecimal.
    pub actual: String,
    /// Its bytes.
    pub bytes: u64,
    /// What became of it.
    pub state: &'static str,
    /// Why it did not land; null if it did.
    pub reason: Option<String>,
}

/// What a plan would do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LaidDry {
    /// [`LAYOUT_RUN_SCHEMA`].
    pub schema: &'static str,
    /// True.
    pub dry_run: bool,
    /// The plan.
    pub plan: LayoutPlanFile,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// What would be placed.
    pub would_place: Vec<PlannedLibrary>,
    /// What this host lacks for it; null where nothing.
    pub missing: Option<String>,
}

/// A library and its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PlannedLibrary {
    /// Its file.
    pub file: String,
    /// Its place, in hexadecimal.
    pub base: String,
    /// Its bytes.
    pub bytes: u64,
}
