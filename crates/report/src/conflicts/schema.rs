//! The result of `pagewalk layout analyze`, as data. `--json` writes exactly this; the page embeds exactly this.
//!
//! All counts are *modelled*: those of arrays that are simulated alone, with least-recently-used replacement.

use crate::schema::Host;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The schema name that every result carries.
pub const CONFLICTS_SCHEMA: &str = "pagewalk.conflicts/1";

/// What was found in one stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConflictsResult {
    /// [`CONFLICTS_SCHEMA`].
    pub schema: String,
    /// Version of pagewalk.
    pub version: String,
    /// Where the stream was recorded.
    pub host: Host,
    /// The stream's file.
    pub trace: String,
    /// Path of the program.
    pub program: String,
    /// Its command line.
    pub command_line: Vec<String>,
    /// What was lost of the stream.
    pub losses: Vec<String>,
    /// The machine whose arrays these are.
    pub machine: String,
    /// What was too little to be told: a number of evictions, or a share in per cent.
    pub least: String,
    /// Each array.
    pub arrays: Vec<ArrayResult>,
    /// The code that ran.
    pub code: Code,
}

/// Code and data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Sides {
    /// By fetches of instructions.
    pub code: u64,
    /// By loads and stores.
    pub data: u64,
}

impl Sides {
    /// Both together.
    pub fn total(&self) -> u64 {
        self.code.saturating_add(self.data)
    }
}

/// One array of a TLB.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ArrayResult {
    /// Its name.
    pub name: String,
    /// What it serves: `code`, `data`, `code and data`.
    pub serves: String,
    /// Its sets.
    pub sets: u64,
    /// Entries of a set.
    pub ways: u64,
    /// How a page chooses its set.
    pub index: String,
    /// The machine's replacement; the one simulated is `lru`.
    pub replacement: String,
    /// References; one that lies on two pages counts for both.
    pub references: Sides,
    /// Misses.
    pub misses: Sides,
    /// Misses that no array could hit.
    pub compulsory: u64,
    /// Other misses that a fully associative array of as many entries has too.
    pub capacity: u64,
    /// Misses that it has not.
    pub conflict: u64,
    /// Hits that it has not.
    pub spared: u64,
    /// Evictions, by what brought the page that came, and what had brought the page that went.
    pub evictions: Evictions,
    /// Standard deviation of the sets' misses over their mean.
    pub variation: f64,
    /// Misses of each set.
    pub misses_by_set: Vec<u64>,
    /// Files and kinds of memory, those with most involvement first.
    pub owners: Vec<OwnerRow>,
    /// Pages that sets below name, and others with much involvement; those with most first.
    pub pages: Vec<PageRow>,
    /// Pages in all.
    pub pages_in_all: u64,
    /// Sets with their graphs, those with most misses first.
    pub graphs: Vec<SetGraph>,
    /// Evictions whose pages are not known, as there were too many pairs to keep.
    pub dropped: u64,
}

impl ArrayResult {
    /// Misses that `pages` evictions are a share of.
    pub fn share_of_misses(&self, evictions: u64) -> f64 {
        evictions as f64 / self.misses.total().max(1) as f64
    }
}

/// Evictions by both sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Evictions {
    /// Code by code.
    pub code_by_code: u64,
    /// Data by code.
    pub data_by_code: u64,
    /// Code by data.
    pub code_by_data: u64,
    /// Data by data.
    pub data_by_data: u64,
}

/// A file, or a kind of memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OwnerRow {
    /// Its path, or its kind in brackets.
    pub name: String,
    /// `program`, `loader`, `object`, `file`, `heap`, `stack`, `anonymous`, `kernel`, `unknown`. Only objects can be
    /// placed elsewhere.
    pub kind: String,
    /// Its pages.
    pub pages: u64,
    /// References to them.
    pub references: Sides,
    /// Their misses.
    pub misses: Sides,
    /// How often they took the place of others.
    pub evicted: u64,
    /// How often others took theirs.
    pub was_evicted: u64,
}

/// A page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PageRow {
    /// Its first byte, hexadecimal.
    pub start: String,
    /// Its set.
    pub set: u64,
    /// Whose it is.
    pub owner: String,
    /// Its place in its file, hexadecimal, if it came from there.
    pub file_offset: Option<String>,
    /// References.
    pub references: Sides,
    /// Misses.
    pub misses: Sides,
    /// How often it took the place of another.
    pub evicted: u64,
    /// How often another took its.
    pub was_evicted: u64,
}

impl PageRow {
    /// Evictions that it had a part in.
    pub fn involved(&self) -> u64 {
        self.evicted.saturating_add(self.was_evicted)
    }
}

/// Who evicts whom in a set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SetGraph {
    /// The set.
    pub set: u64,
    /// Its misses.
    pub misses: u64,
    /// Pages, those with most arrows first.
    pub nodes: Vec<GraphNode>,
    /// Arrows, the most frequent first.
    pub edges: Vec<GraphEdge>,
    /// Evictions that are not among them.
    pub left_out: u64,
}

/// A page of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GraphNode {
    /// Index into the array's pages.
    pub page: usize,
    /// How often it took the place of another.
    pub evicted: u64,
    /// How often another took its.
    pub was_evicted: u64,
}

/// An arrow from a page to the one that took its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GraphEdge {
    /// Index of the node that was evicted.
    pub victim: usize,
    /// Index of the node that took its place.
    pub victimiser: usize,
    /// How often.
    pub count: u64,
    /// What caused most of it: a function whose code was fetched, or the address of data.
    pub cause: String,
}

/// The code that ran, by pages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Code {
    /// Instructions executed.
    pub instructions: u64,
    /// Pages of code, by address.
    pub pages: Vec<CodePage>,
    /// Calls between them.
    pub calls: Vec<PageCall>,
}

/// A page of code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CodePage {
    /// Its first byte, hexadecimal.
    pub start: String,
    /// Whose it is.
    pub owner: String,
    /// Its place in its file, hexadecimal, if it came from there.
    pub file_offset: Option<String>,
    /// Instructions executed that begin there.
    pub instructions: u64,
}

/// Calls from a page to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PageCall {
    /// Index of the calling page.
    pub caller: usize,
    /// Index of the page called.
    pub callee: usize,
    /// How often.
    pub calls: u64,
    /// Instructions executed until they returned.
    pub instructions: u64,
}
