//! The result of `pagewalk layout plan`, as data. `--json` writes exactly this.
//!
//! All counts are *modelled*, for base pages, on the recorded stream with its objects moved.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The schema name that every result carries.
pub const LAYOUT_PLAN_SCHEMA: &str = "pagewalk.layout-plan/1";

/// The layout planned for one stream.
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
    /// The planner.
    pub planner: String,
    /// What the planner did, in a sentence.
    pub did: String,
    /// Parts of the stream that were lost.
    pub losses: Vec<String>,
    /// The layout's walks on each machine.
    pub machines: Vec<PlannedMachine>,
    /// The planned place of each object.
    pub objects: Vec<PlannedObject>,
    /// Shared objects that cannot move, because the program maps them several times or moves them.
    pub left: u64,
}

/// Walks on one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedMachine {
    /// Its name.
    pub name: String,
    /// Sets of its last level; the most of several arrays.
    pub sets: u64,
    /// Walks with objects at their recorded places.
    pub recorded: u64,
    /// Walks with objects at their planned places.
    pub planned: u64,
    /// Walks with objects at their recorded places and a fully associative last level. If there are few conflicts, no
    /// layout gets far below this.
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

/// Walks under random layouts as shares of `recorded`, estimated from a sample of reuses.
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
    /// References to one of its pages that follow a reference to another page.
    pub references: u64,
    /// Pages that it moves by, modulo the most sets of the machines.
    pub shift: u64,
    /// Its planned address.
    pub base: String,
}
