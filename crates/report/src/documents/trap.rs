//! The result of `trap`.

use super::End;
use crate::classes::Classes;
use schemars::JsonSchema;
use serde::Serialize;

/// Schema of what this version writes.
pub const TRAP_SCHEMA: &str = "pagewalk.trap/1";

/// A TLB's misses, counted by page faults of a running program.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TrapResult {
    /// [`TRAP_SCHEMA`].
    pub schema: &'static str,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The machine whose TLB it is.
    pub machine: String,
    /// The TLB.
    pub array: TrapArray,
    /// The kinds of references that look it up.
    pub references: &'static str,
    /// How the program ended.
    pub end: End,
    /// Misses of all images.
    pub misses: u64,
    /// Seconds that the run took.
    pub run_seconds: f64,
    /// Seconds of a run without the trap; null if there was none.
    pub native_seconds: Option<f64>,
    /// `run_seconds` / `native_seconds`.
    pub slowdown: Option<f64>,
    /// Added time per miss, in microseconds.
    pub microseconds_per_miss: Option<f64>,
    /// Classes of figures.
    pub classes: Classes,
    /// One for each image of a process.
    pub images: Vec<TrapImage>,
}

/// A TLB that traps can simulate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TrapArray {
    /// Its name.
    pub name: String,
    /// Entries.
    pub entries: usize,
    /// Ways of a set.
    pub ways: usize,
    /// Its replacement policy.
    pub replacement: &'static str,
    /// The seed, if the policy is random.
    pub seed: Option<u64>,
    /// How a page number selects its set.
    pub index: String,
    /// Bytes of a page.
    pub page_bytes: u64,
}

/// An image of a process.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TrapImage {
    /// Its number, in order of start.
    pub number: u32,
    /// The process.
    pub process: i32,
    /// The program.
    pub program: String,
    /// How it began: `exec` or `fork`.
    pub began: &'static str,
    /// Why its misses were not counted; null if they were.
    pub not_followed: Option<String>,
    /// Seconds that it ran.
    pub run_seconds: f64,
    /// Misses.
    pub misses: u64,
    /// Entries that were replaced.
    pub evictions: u64,
    /// First touches of pages.
    pub first_touches: u64,
    /// Pages that unmapping removed from the TLB.
    pub forgotten: u64,
    /// Faults on pages that the array holds, for example when several threads wait for one page. They are no misses.
    pub refills: u64,
    /// Misses per second.
    pub misses_per_second: f64,
    /// The agent's time per fault, in microseconds; null without faults.
    pub agent_microseconds_per_fault: Option<f64>,
    /// Bytes of memory under the trap.
    pub taken_over_bytes: u64,
    /// Touched pages of that memory.
    pub touched_pages: u64,
    /// The share of resident pages under the trap; null if there are none.
    pub seen_page_share: Option<f64>,
    /// Its memory by kind.
    pub memory: Vec<TrapMemory>,
    /// Its mappings at its end.
    pub mappings: Vec<TrapMapping>,
    /// Memory not under the trap, in words.
    pub left_alone: Vec<String>,
    /// Decisions compared with the simulator's; null if not requested.
    pub checked_decisions: Option<u64>,
    /// The first decision that differs; null if none does.
    pub first_difference: Option<String>,
}

/// Memory of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TrapMemory {
    /// The kind.
    pub kind: String,
    /// Its number of mappings.
    pub mappings: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Their resident pages.
    pub pages: u64,
}

/// A mapping.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TrapMapping {
    /// Its kind.
    pub kind: String,
    /// Its address, in hexadecimal.
    pub start: String,
    /// Its bytes.
    pub bytes: u64,
    /// Its resident pages.
    pub resident_pages: u64,
    /// Its name, as /proc/PID/maps has it.
    pub name: String,
}
