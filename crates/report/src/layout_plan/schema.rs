//! The result of `pagewalk layout plan`, as data. `--json` writes exactly this.
//!
//! All counts are *modelled*: of the machines, for base pages, on the recorded stream with its objects moved.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The schema name that every result carries.
pub const LAYOUT_PLAN_SCHEMA: &str = "pagewalk.layout-plan/1";

/// What was planned for one stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LayoutPlanResult {
    /// [`LAYOUT_PLAN_SCHEMA`].
    pub schema: String,
    /// Version of pagewalk.
    pub version: String,
    /// The stream's file.
    pub trace: String,
    /// Path of the program.
    pub program: String,
    /// What planned.
    pub planner: String,
    /// What it did, in a sentence.
    pub did: String,
    /// What was lost of the stream.
    pub losses: Vec<String>,
    /// What each machine makes of it.
    pub machines: Vec<PlannedMachine>,
    /// Where each object goes.
    pub objects: Vec<PlannedObject>,
    /// Shared objects that cannot move: mapped several times, or moved by the program.
    pub left: u64,
}

/// Walks of one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedMachine {
    /// Its name.
    pub name: String,
    /// Its sets of the last level; of several arrays the most.
    pub sets: u64,
    /// Walks with objects where they were recorded.
    pub recorded: u64,
    /// Walks with objects where they are planned.
    pub planned: u64,
    /// Walks if the last level were fully associative, with objects where they were recorded: what no layout of a
    /// machine with few conflicts gets far below.
    pub fully_associative: u64,
    /// Random layouts.
    pub random: RandomLayouts,
}

impl PlannedMachine {
    /// The change of walks, as a share.
    pub fn change(&self) -> f64 {
        (self.planned as f64 - self.recorded as f64) / (self.recorded as f64).max(1.0)
    }
}

/// Walks under random layouts, estimated from a sample of reuses, as shares of those where objects were recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RandomLayouts {
    /// How many.
    pub count: u64,
    /// The best.
    pub least: f64,
    /// The one in the middle.
    pub median: f64,
    /// The worst.
    pub most: f64,
}

/// An object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedObject {
    /// Its file.
    pub file: String,
    /// Its pages.
    pub pages: u64,
    /// How often a reference went to one of its pages from another page.
    pub references: u64,
    /// Pages that it moves by, modulo the most sets of the machines.
    pub shift: u64,
    /// Its planned address.
    pub base: String,
}
