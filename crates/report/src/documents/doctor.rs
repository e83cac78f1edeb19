//! What `doctor` finds.

use schemars::JsonSchema;
use serde::Serialize;

/// Schema of what this version writes.
pub const DOCTOR_SCHEMA: &str = "pagewalk.doctor/1";

/// What this host can do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DoctorResult {
    /// [`DOCTOR_SCHEMA`].
    pub schema: &'static str,
    /// One for each thing that commands need.
    pub findings: Vec<Finding>,
    /// The engine, where it can run.
    pub engine: Option<EngineFound>,
}

/// Something that commands need.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Finding {
    /// What it is.
    pub name: &'static str,
    /// Whether this host has it.
    pub able: bool,
    /// What was found, or what is missing.
    pub found: String,
    /// What would enable it; empty where nothing is missing.
    pub enable: String,
    /// Which commands need it.
    pub for_commands: &'static str,
    /// Whether the present commands cannot work without it.
    pub required: bool,
}

/// Where the engine lies, for running it by hand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct EngineFound {
    /// Valgrind's version.
    pub version: String,
    /// Valgrind's own command.
    pub launcher: String,
    /// The folder of the tool.
    pub folder: String,
}
