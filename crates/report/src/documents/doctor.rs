//! The result of `doctor`.

use schemars::JsonSchema;
use serde::Serialize;

/// Schema of what this version writes.
pub const DOCTOR_SCHEMA: &str = "pagewalk.doctor/1";

/// What this host can do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DoctorResult {
    /// [`DOCTOR_SCHEMA`].
    pub schema: &'static str,
    /// One for each requirement of a command.
    pub findings: Vec<Finding>,
    /// The engine, where it can run.
    pub engine: Option<EngineLocation>,
}

/// A requirement of commands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Finding {
    /// Its name.
    pub name: &'static str,
    /// Whether this host has it.
    pub able: bool,
    /// What was found, or what is missing.
    pub found: String,
    /// How to enable it, or what else could do it and why that does not; empty if nothing is missing.
    pub enable: String,
    /// Which commands need it.
    pub for_commands: &'static str,
    /// Whether these commands fail without it.
    pub required: bool,
}

/// The engine's files, for running it by hand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct EngineLocation {
    /// Valgrind's version.
    pub version: String,
    /// Valgrind's own command.
    pub launcher: String,
    /// The tool's folder.
    pub folder: String,
}
