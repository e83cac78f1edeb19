//! The result of `layout run`.

use super::End;
use schemars::JsonSchema;
use serde::Serialize;

/// Schema of what this version writes.
pub const LAYOUT_RUN_SCHEMA: &str = "pagewalk.layout-run/1";

/// A program with its libraries at planned places.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum LayoutRunResult {
    /// The program ran.
    Run(PlacedRun),
    /// A dry run (`--dry-run`).
    Dry(PlacedDryRun),
}

/// A run with a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PlacedRun {
    /// [`LAYOUT_RUN_SCHEMA`].
    pub schema: &'static str,
    /// The plan.
    pub plan: LayoutPlanFile,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// How the program ended.
    pub end: End,
    /// Whether every loaded library lay at its planned place.
    pub in_effect: bool,
    /// Planned libraries that no image had loaded when it was inspected.
    pub not_loaded: Vec<String>,
    /// One for each image of a process.
    pub images: Vec<PlacedImage>,
}

/// The plan's file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LayoutPlanFile {
    /// Its path.
    pub file: String,
    /// Its planner.
    pub planner: String,
    /// Its machines.
    pub machines: Vec<String>,
    /// Its program.
    pub program: String,
    /// The first address of its libraries, in hexadecimal.
    pub arena: String,
    /// Its number of libraries.
    pub libraries: usize,
}

/// An image of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PlacedImage {
    /// The process.
    pub process: i32,
    /// The program.
    pub program: String,
    /// Why it ran without the plan; null if it ran with it.
    pub obstacle: Option<String>,
    /// Bytes by which the whole plan moved up.
    pub slid_bytes: u64,
    /// Where libraries lay at its start; null if not inspected.
    pub at_start: Option<Vec<LibraryPlace>>,
    /// Where libraries lay at its end; null if not inspected.
    pub at_end: Option<Vec<LibraryPlace>>,
}

/// Where a library lay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LibraryPlace {
    /// Its file.
    pub file: String,
    /// Its planned address, in hexadecimal.
    pub planned: String,
    /// Its actual address, in hexadecimal.
    pub actual: String,
    /// Its bytes.
    pub bytes: u64,
    /// Whether it lay at its planned place, in a word.
    pub state: &'static str,
    /// Why it did not; null if it did.
    pub reason: Option<String>,
}

/// What a plan would do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PlacedDryRun {
    /// [`LAYOUT_RUN_SCHEMA`].
    pub schema: &'static str,
    /// True.
    pub dry_run: bool,
    /// The plan.
    pub plan: LayoutPlanFile,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The libraries that a run would place.
    pub would_place: Vec<PlannedLibrary>,
    /// What this host lacks; null if nothing.
    pub missing: Option<String>,
}

/// A library and its planned address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PlannedLibrary {
    /// Its file.
    pub file: String,
    /// Its address, in hexadecimal.
    pub base: String,
    /// Its bytes.
    pub bytes: u64,
}
