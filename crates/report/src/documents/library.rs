//! What `machines` tells of the library.

use crate::schema::MachineDescription;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// Schema of what `machines list` writes.
pub const MACHINES_SCHEMA: &str = "pagewalk.machines/1";
/// Schema of what `machines show` writes.
pub const MACHINE_SCHEMA: &str = "pagewalk.machine/1";
/// Schema of what `machines check` writes.
pub const MACHINES_CHECK_SCHEMA: &str = "pagewalk.machines-check/1";

/// The library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MachinesResult {
    /// [`MACHINES_SCHEMA`].
    pub schema: &'static str,
    /// Its machines, in the order of their names.
    pub machines: Vec<MachineRow>,
}

/// A machine of the library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MachineRow {
    /// Its name.
    pub name: String,
    /// The hardware's name.
    pub title: String,
    /// Whether it stands for this host's processor.
    pub is_host: bool,
}

/// One machine.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct MachineResult {
    /// [`MACHINE_SCHEMA`].
    pub schema: &'static str,
    /// The hardware's name.
    pub title: String,
    /// What results say of it.
    pub machine: MachineDescription,
    /// For each array, the bytes that it reaches with pages of each size.
    pub reach_bytes: BTreeMap<String, BTreeMap<String, u64>>,
    /// For each array, what its replacement policy rests on; null where the file does not say.
    pub replacement_sources: BTreeMap<String, Option<String>>,
}

/// Whether machine files are right.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MachinesCheckResult {
    /// [`MACHINES_CHECK_SCHEMA`].
    pub schema: &'static str,
    /// One for each that was asked for.
    pub machines: Vec<MachineCheck>,
}

/// Whether a machine file is right.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum MachineCheck {
    /// It is.
    Right {
        /// Its name or path.
        machine: String,
        /// True.
        ok: bool,
        /// Its arrays.
        arrays: usize,
        /// Its base page, such as 4K.
        base_page: String,
        /// Entries of its largest array for base pages.
        entries_most: usize,
        /// What its replacement policies rest on.
        replacement: String,
    },
    /// It is not.
    Wrong {
        /// Its name or path.
        machine: String,
        /// False.
        ok: bool,
        /// What is wrong, and where.
        error: String,
    },
}
