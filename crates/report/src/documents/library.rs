//! The results of `machines`.

use crate::schema::MachineDescription;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// Schema of `machines list`.
pub const MACHINES_SCHEMA: &str = "pagewalk.machines/1";
/// Schema of `machines show`.
pub const MACHINE_SCHEMA: &str = "pagewalk.machine/1";
/// Schema of `machines check`.
pub const MACHINES_CHECK_SCHEMA: &str = "pagewalk.machines-check/1";

/// The library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MachinesResult {
    /// [`MACHINES_SCHEMA`].
    pub schema: &'static str,
    /// Its machines, by name.
    pub machines: Vec<MachineRow>,
}

/// A machine of the library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MachineRow {
    /// Its name.
    pub name: String,
    /// The hardware's name.
    pub title: String,
    /// Whether it describes this host's processor.
    pub is_host: bool,
}

/// One machine.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct MachineDocument {
    /// [`MACHINE_SCHEMA`].
    pub schema: &'static str,
    /// The hardware's name.
    pub title: String,
    /// Its description, as in results.
    pub machine: MachineDescription,
    /// Each array's reach in bytes, by page size.
    pub reach_bytes: BTreeMap<String, BTreeMap<String, u64>>,
    /// The source of each array's replacement policy; null if the file does not say.
    pub replacement_sources: BTreeMap<String, Option<String>>,
}

/// Whether machine files are valid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MachinesCheckResult {
    /// [`MACHINES_CHECK_SCHEMA`].
    pub schema: &'static str,
    /// One for each file checked.
    pub machines: Vec<MachineCheck>,
}

/// Whether a machine file is valid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum MachineCheck {
    /// It is valid.
    Right {
        /// Its name or path.
        machine: String,
        /// True.
        ok: bool,
        /// Its number of arrays.
        arrays: usize,
        /// Its base page, such as 4K.
        base_page: String,
        /// Entries of its largest array for base pages.
        entries_most: usize,
        /// The sources of its replacement policies.
        replacement: String,
    },
    /// It is not valid.
    Wrong {
        /// Its name or path.
        machine: String,
        /// False.
        ok: bool,
        /// What is wrong, and where.
        error: String,
    },
}
