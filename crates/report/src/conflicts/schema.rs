//! The result of `pagewalk layout analyze`, as data. `--json` writes exactly this; the page embeds exactly this.
//!
//! All counts are *modelled*: each array is simulated alone, with least-recently-used replacement.

use crate::schema::Host;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The schema name that every result carries.
pub const CONFLICTS_SCHEMA: &str = "pagewalk.conflicts/1";

/// The conflicts of one stream.
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
    /// Parts of the stream that were lost.
    pub losses: Vec<String>,
    /// The machine of the arrays.
    pub machine: String,
    /// The smallest figure that is listed: a number of evictions, or a share in per cent.
    pub least: String,
    /// Each array.
    pub arrays: Vec<ArrayResult>,
    /// The code that ran.
    pub code: CodeGraph,
}

/// A count split into code and data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CodeAndData {
    /// By fetches of instructions.
    pub code: u64,
    /// By loads and stores.
    pub data: u64,
}

impl CodeAndData {
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
    /// How a page number selects its set.
    pub index: String,
    /// The machine's replacement policy; the simulation uses `lru`.
    pub replacement: String,
    /// References; one on two pages counts twice.
    pub references: CodeAndData,
    /// Misses.
    pub misses: CodeAndData,
    /// Misses that no array could hit: first references to pages, also after their mapping changed.
    pub compulsory: u64,
    /// Other misses that a fully associative array of the same size has too.
    pub capacity: u64,
    /// Misses that a fully associative array of the same size avoids.
    pub conflict: u64,
    /// Hits that a fully associative array of the same size misses.
    pub spared: u64,
    /// Evictions by code or data, of code or data.
    pub evictions: Evictions,
    /// Standard deviation of the sets' misses over their mean.
    pub variation: f64,
    /// Misses of each set.
    pub misses_by_set: Vec<u64>,
    /// Files and kinds of memory, the most involved first.
    pub owners: Vec<OwnerRow>,
    /// Pages of the graphs below and other involved pages, the most involved first.
    pub pages: Vec<ConflictPage>,
    /// All pages, listed or not.
    pub pages_in_all: u64,
    /// Graphs of sets, those with most misses first.
    pub graphs: Vec<SetGraph>,
    /// Evictions whose pages are unknown, because there were too many pairs to keep.
    pub dropped: u64,
}

impl ArrayResult {
    /// `evictions` as a share of all misses.
    pub fn share_of_misses(&self, evictions: u64) -> f64 {
        evictions as f64 / self.misses.total().max(1) as f64
    }
}

/// Evictions by code and data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Evictions {
    /// Pages of code that code evicted.
    pub code_by_code: u64,
    /// Pages of data that code evicted.
    pub data_by_code: u64,
    /// Pages of code that data evicted.
    pub code_by_data: u64,
    /// Pages of data that data evicted.
    pub data_by_data: u64,
}

/// The row of a file or a kind of memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OwnerRow {
    /// Its path, or its kind in brackets.
    pub name: String,
    /// `program`, `loader`, `object`, `file`, `heap`, `stack`, `anonymous`, `kernel`, `unknown`. Only objects can move.
    pub kind: String,
    /// Its pages.
    pub pages: u64,
    /// References to its pages.
    pub references: CodeAndData,
    /// Misses of its pages.
    pub misses: CodeAndData,
    /// Evictions by its pages.
    pub evicted: u64,
    /// Of these, evictions of its own pages.
    #[serde(default)]
    pub evicted_own: u64,
    /// Evictions of its pages.
    pub was_evicted: u64,
}

impl OwnerRow {
    /// Evictions that its pages took part in, each once.
    pub fn involved(&self) -> u64 {
        self.evicted.saturating_add(self.was_evicted).saturating_sub(self.evicted_own)
    }
}

/// A page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConflictPage {
    /// Its first byte, hexadecimal.
    pub start: String,
    /// Its set.
    pub set: u64,
    /// The file or kind of memory that owns it.
    pub owner: String,
    /// Its offset in its file, hexadecimal, if it has one.
    pub file_offset: Option<String>,
    /// References.
    pub references: CodeAndData,
    /// Misses.
    pub misses: CodeAndData,
    /// Evictions of other pages by this one.
    pub evicted: u64,
    /// Evictions of this page by others.
    pub was_evicted: u64,
}

impl ConflictPage {
    /// Evictions that it took part in.
    pub fn involved(&self) -> u64 {
        self.evicted.saturating_add(self.was_evicted)
    }
}

/// Which pages evict which in a set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SetGraph {
    /// The set.
    pub set: u64,
    /// Its misses.
    pub misses: u64,
    /// Pages, those with most evictions first.
    pub nodes: Vec<GraphNode>,
    /// Evictions by pair of pages, the most frequent first.
    pub edges: Vec<GraphEdge>,
    /// Evictions that `edges` leaves out.
    pub left_out: u64,
}

/// A page of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GraphNode {
    /// Index into the array's pages.
    pub page: usize,
    /// Evictions of other pages by this one.
    pub evicted: u64,
    /// Evictions of this page by others.
    pub was_evicted: u64,
}

/// An edge from an evicted page to the one that replaced it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GraphEdge {
    /// Index of the evicted node.
    pub victim: usize,
    /// Index of the node that replaced it.
    pub victimiser: usize,
    /// How many times.
    pub count: u64,
    /// The main cause: the function whose code was fetched, or the address of data.
    pub cause: String,
}

/// The code that ran, by pages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CodeGraph {
    /// Instructions executed.
    pub instructions: u64,
    /// Pages of code, by address.
    pub pages: Vec<CodePage>,
    /// Calls between these pages.
    pub calls: Vec<PageCall>,
}

/// A page of code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CodePage {
    /// Its first byte, hexadecimal.
    pub start: String,
    /// The file or kind of memory that owns it.
    pub owner: String,
    /// Its offset in its file, hexadecimal, if it has one.
    pub file_offset: Option<String>,
    /// Executed instructions that begin in it.
    pub instructions: u64,
}

/// Calls from a page to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PageCall {
    /// Index of the calling page.
    pub caller: usize,
    /// Index of the page called.
    pub callee: usize,
    /// How many times.
    pub calls: u64,
    /// Instructions executed until the calls returned.
    pub instructions: u64,
}
