//! The result of `profile` or `simulate`, as data. `--json` writes exactly this; the HTML report embeds exactly this.
//!
//! Every number has a name, a unit (the end of the name, unless it is a count) and a class: the simulation's counts are
//! *modelled* (exact for the machine described); instructions, references and touched pages are *measured* on the
//! program; a perfect TLB is a *bound*.

pub use crate::color_misses::{ColorColumn, ColorMisses, ColorPage, ColorPart};
use crate::figures::base_name;
use crate::groups;
use crate::machine_description::is_zero;
pub use crate::machine_description::{
    CacheDescription, MachineDescription, TlbDescription, WalkCacheDescription,
};
use crate::metrics::RegistrySchema;
pub use crate::values::{Metrics, Number};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The schema name that every result carries.
pub const RESULT_SCHEMA: &str = "pagewalk.result/2";
/// The schema of older results, which are read too: they list cores, processes, kernels and servers as mappings.
pub const RESULT_SCHEMA_1: &str = "pagewalk.result/1";

/// One run of `profile` or `simulate`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunResult {
    /// [`RESULT_SCHEMA`].
    pub schema: String,
    /// The tool that made this result.
    pub tool: Tool,
    /// The host of the program.
    pub host: Host,
    /// The description of each machine, in the order of `machines`; empty in results that do not say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub descriptions: Vec<MachineDescription>,
    /// Totals over all processes, one entry per machine.
    pub machines: Vec<MachineResult>,
    /// Each process image (program start, fork child, exec), in order of start.
    pub processes: Vec<ProcessResult>,
}

/// The tool's identity and settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tool {
    /// Version of pagewalk.
    pub version: String,
    /// The capture engine with its version, or the stream's file.
    pub engine: String,
    /// pagewalk's own command line.
    pub command_line: Vec<String>,
}

/// The recording host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// CPU model name.
    pub cpu: String,
    /// Kernel release.
    pub kernel: String,
    /// THP mode: `always`, `madvise`, `never` or `unknown`.
    pub thp: String,
}

fn usual_page() -> u64 {
    4096
}

fn is_usual_page(bytes: &u64) -> bool {
    *bytes == 4096
}

/// Counters of one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MachineResult {
    /// The machine's name.
    pub name: String,
    /// Its counters, such as `instructions`, `references`, `tlb.l1d.lookups`, `tlb.l1d.misses`,
    /// `walks`, `walk_references`, `walk_cycles`, `walk_cycle_share`.
    #[schemars(with = "RegistrySchema")]
    pub metrics: Metrics,
    /// Moves of a software-managed TLB's partition, its start first; empty if it does not move, and in sums over
    /// processes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partition: Vec<PartitionMove>,
}

impl MachineResult {
    /// The counters of a machine without a moving partition.
    pub fn new(name: impl Into<String>, metrics: Metrics) -> MachineResult {
        MachineResult { name: name.into(), metrics, partition: Vec::new() }
    }
}

/// A move of a software-managed TLB's partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PartitionMove {
    /// Instructions executed before the move; 0 for the start.
    pub instructions: u64,
    /// Slots below the partition from then on.
    pub lower: u32,
}

/// One process image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessResult {
    /// Process id.
    pub pid: u32,
    /// Parent's process id.
    pub parent: u32,
    /// `start`, `fork`, `exec` or `import`; `interleaved` for several processes that take turns.
    pub origin: String,
    /// Path of the program.
    pub program: String,
    /// Its command line.
    pub command_line: Vec<String>,
    /// How it ended: `exit 0`, `signal 9`, `exec`, `unknown` …
    pub ended: String,
    /// Parts of the stream that were lost or cut off, in words; empty if it is complete.
    pub losses: Vec<String>,
    /// The loss, among `losses`, of the rest of the program. The figures then cover its beginning only, and there is no
    /// advice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut_short: Option<String>,
    /// The transparent huge pages that the process forbids at its end (`prctl(PR_SET_THP_DISABLE)`): `all` or
    /// `except_advised`; left out if it forbids none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thp_disable: Option<String>,
    /// If the trace says nothing of mappings, so that areas are inferred from its references: the gap in bytes, up to
    /// which touched pages are surely in one area. Left out if areas are the program's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inferred_gap: Option<u64>,
    /// The operating system's structure, if the run simulates one. Counters of the machines then include references of
    /// the kernel and the servers, which `kernel_references` and `server_references` count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structure: Option<String>,
    /// Counters per machine.
    pub machines: Vec<MachineResult>,
    /// What causes walks, on the first machine.
    pub attribution: Attribution,
    /// Walks over address space and time, on the first machine.
    pub heat: Heat,
    /// Misses against the number of second-level entries, on the first machine.
    pub reach: Vec<ReachPoint>,
    /// Alternatives on the first machine. The first entry is the baseline.
    pub what_if: Vec<WhatIf>,
    /// The machines under several kernels, the host's first for each machine, if requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernels: Vec<KernelResult>,
    /// The advice, in a sentence.
    pub advice: String,
}

impl ProcessResult {
    /// Sets [`ProcessResult::cut_short`] if the rest of the program was lost. Figures of a beginning are no basis for
    /// advice.
    pub fn note_cut(&mut self) {
        self.cut_short = self.losses.iter().find(|loss| loss.starts_with(REST_LOST)).cloned();
        if self.cut_short.is_some() {
            self.advice.clear();
        }
    }
}

/// The first words of a loss of everything after some point.
pub const REST_LOST: &str = "the rest of the program";

/// Walks by mapping, function and page.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Attribution {
    /// By mapping, costliest first; empty if the first machine has a direct segment. Walks of an operating system's
    /// kernel and servers are in none.
    pub mappings: Vec<MappingRow>,
    /// By function, costliest first.
    pub functions: Vec<FunctionRow>,
    /// By page, costliest first (the costliest thousand).
    pub pages: Vec<PageRow>,
    /// Pages with walks that the list of pages leaves out.
    pub pages_left_out: u64,
    /// Parts of the run with counters of their own, on the first machine; left out if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Group>,
    /// Misses of the first machine's second-level cache by the color of the page; left out if it has no colors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub colors: Option<ColorMisses>,
}

/// A part of the run with counters of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Group {
    /// Its kind: one of [`DIVISIONS`](crate::groups::DIVISIONS).
    #[schemars(extend("enum" = groups::ids(), "description" = groups::about()))]
    pub kind: String,
    /// Its name, unique within its kind.
    pub name: String,
    /// Its counters, by their names in the registry.
    #[schemars(with = "RegistrySchema")]
    pub metrics: Metrics,
}

/// One mapping, or all mappings of one file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MappingRow {
    /// `[heap]`, `[stack]`, `[anonymous 1.5G]`, a file's path …
    pub name: String,
    /// The program that has it, if several took turns: `/usr/bin/sort (pid 12)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<String>,
    /// `heap`, `stack`, `anonymous`, `shared_anonymous`, `file`, `shared_file`, `kernel` (its vdso), `inferred` (see
    /// [`ProcessResult::inferred_gap`]), `unknown`.
    pub kind: String,
    /// The code that mapped more than half of it, past the allocator: `build (join.c:17)`. Left out if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_by: Option<String>,
    /// GNU build-id of the file, if it has one.
    pub build_id: Option<String>,
    /// Lowest address.
    pub start: u64,
    /// Its largest size, in bytes.
    pub bytes: u64,
    /// Bytes of its pages: 4096, and then left out; more if it is hugetlb memory.
    #[serde(default = "usual_page", skip_serializing_if = "is_usual_page")]
    pub page_bytes: u64,
    /// Regions of it, by the first machine's huge page, that were first touched before it held all of the region, and
    /// so lie on base pages. The kernel would have given them huge pages otherwise.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub late_blocks: u64,
    /// Such regions that would lie on base pages anyway: huge pages are off, or only for advised memory.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub late_blocks_small_anyway: u64,
    /// Touched base pages of the first machine.
    pub pages_touched: u64,
    /// Fetches from it. A reference that crosses into another page counts for both.
    pub references_fetch: u64,
    /// Loads, stores and modifies in it, likewise.
    pub references_data: u64,
    /// Walks by fetches.
    pub walks_fetch: u64,
    /// Walks by data references.
    pub walks_data: u64,
    /// Modelled cycles of those walks.
    pub walk_cycles: u64,
    /// What its references miss in caches of memory; left out without caches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<WaitCounts>,
}

/// Nothing is known but that its pages have 4096 bytes.
impl Default for MappingRow {
    fn default() -> MappingRow {
        MappingRow {
            page_bytes: usual_page(),
            name: String::new(),
            process: None,
            kind: String::new(),
            made_by: None,
            build_id: None,
            start: 0,
            bytes: 0,
            late_blocks: 0,
            late_blocks_small_anyway: 0,
            pages_touched: 0,
            references_fetch: 0,
            references_data: 0,
            walks_fetch: 0,
            walks_data: 0,
            walk_cycles: 0,
            waits: None,
        }
    }
}

impl MappingRow {
    /// Its name for people, with its program and the code that mapped it.
    pub fn label(&self) -> String {
        let name = of_process(&self.name, self.process.as_deref());
        match &self.made_by {
            Some(who) => format!("{name} by {who}"),
            None => name,
        }
    }
}

impl PageRow {
    /// Its mapping's name for people, with its program.
    pub fn mapping_label(&self) -> String {
        of_process(&self.mapping, self.process.as_deref())
    }
}

/// A mapping's name for people: the last components of its path and its program's, if that is told.
fn of_process(name: &str, process: Option<&str>) -> String {
    match process {
        Some(process) => format!("{} of {}", base_name(name), base_name(process)),
        None => name.to_owned(),
    }
}

/// Follows an object's name, in place of a function's name, if the object is stripped of all names of its own
/// functions: `libfoo.so (stripped)+0x1200`, with the offset in the file.
pub const STRIPPED: &str = " (stripped)";
/// Follows an object's name if the object has names of functions, but none at that offset.
pub const NO_SYMBOL: &str = " (no symbol)";

/// One function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FunctionRow {
    /// Demangled name; if it has none, the object with [`STRIPPED`] or [`NO_SYMBOL`] and the function's offset in the
    /// file (or that of its 4 KiB page, if the function's start is unknown), or else the address.
    pub name: String,
    /// Path of the object that holds it.
    pub object: String,
    /// Source file, if there is debug information.
    pub file: Option<String>,
    /// Line of its costliest walk, if there is debug information.
    pub line: Option<u32>,
    /// Walks by fetches of its code.
    pub walks_fetch: u64,
    /// Walks by its data references.
    pub walks_data: u64,
    /// Modelled cycles of those walks.
    pub walk_cycles: u64,
    /// What its references miss in caches of memory; left out without caches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<WaitCounts>,
}

/// One base page of the first machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PageRow {
    /// Its first byte.
    pub address: u64,
    /// The mapping's name as in [`MappingRow::name`].
    pub mapping: String,
    /// Its program as in [`MappingRow::process`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<String>,
    /// Walks by fetches.
    pub walks_fetch: u64,
    /// Walks by data references.
    pub walks_data: u64,
    /// What its references miss in caches of memory; left out without caches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<WaitCounts>,
}

/// Misses in the first machine's caches of memory, and waits for them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WaitCounts {
    /// Lines that a cache of each level did not have, level 1 first.
    pub misses: Vec<u64>,
    /// Modelled cycles beyond the fastest access.
    pub stall_cycles: u64,
}

impl WaitCounts {
    /// Adds others, of the same machine.
    pub fn add(&mut self, other: &WaitCounts) {
        self.misses.iter_mut().zip(&other.misses).for_each(|(sum, own)| *sum += own);
        self.stall_cycles = self.stall_cycles.saturating_add(other.stall_cycles);
    }
}

macro_rules! walks_of {
    ($($row:ty),*) => { $(impl $row {
        /// All walks.
        pub fn walks(&self) -> u64 {
            self.walks_data.saturating_add(self.walks_fetch)
        }
    })* };
}
walks_of!(MappingRow, FunctionRow, PageRow);

/// Walks over address space and time: the data of a heat map.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Heat {
    /// Instructions per column.
    pub instructions_per_column: u64,
    /// Number of columns.
    pub columns: u32,
    /// Rows by ascending address; only rows with walks.
    pub rows: Vec<HeatRow>,
}

/// One row of the heat map: a piece of address space.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeatRow {
    /// First byte; 0 for the row that collects many mappings.
    pub start: u64,
    /// Bytes per row; 0 for the row that collects many mappings.
    pub bytes: u64,
    /// The mapping's name as in [`MappingRow::name`], or the number of mappings in the row that collects many.
    pub mapping: String,
    /// Walks per column.
    pub walks: Vec<u64>,
}

/// One point of the curve of walks against reach.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReachPoint {
    /// Page size of the design, such as `4K` or `2M`.
    pub page_size: String,
    /// Entries of the last-level TLB.
    pub entries: u64,
    /// Bytes that they map.
    pub reach_bytes: u64,
    /// Walks with that many entries.
    pub walks: u64,
    /// Whether this is the machine's own size.
    pub is_machine: bool,
}

/// One machine under one kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KernelResult {
    /// The machine's name.
    pub machine: String,
    /// `host`, or the policy with its keys.
    pub policy: String,
    /// `modelled` or `bound`.
    pub class: String,
    /// The counters of [`MachineResult`], and of kernels that build superpages: `kernel.promotions`,
    /// `kernel.copy_cycles` …
    #[schemars(with = "RegistrySchema")]
    pub metrics: Metrics,
    /// Memory over time, for simulated kernels, at multiples of an interval of instructions that is a power of two.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<MemoryPoint>,
}

/// The memory that a kernel backs at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryPoint {
    /// Instructions executed before the sample.
    pub instructions: u64,
    /// Bytes backed.
    pub backed_bytes: u64,
    /// Backed bytes in base pages that the program has touched.
    pub touched_bytes: u64,
}

/// One alternative, simulated in the same pass.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WhatIf {
    /// `baseline`, `all_4k`, `thp`, `all_2m`, `mapping_2m`, `double_tlb`, `double_ways` (of caches), `perfect_tlb`; for
    /// processes in turns `flush`, `identifiers`, `global` or `no_global`, `alone`; on several cores `private`,
    /// `shared`, `one_core`; with `--os` `kernel`, and `recolored` after a kernel that gives pages frames, whose
    /// baseline is that kernel. Machines with other page sizes than 4K and 2M use the same ids: see `page_size`.
    pub id: String,
    /// Its title for people, such as `[heap] alone on 2 MB pages`.
    pub title: String,
    /// `modelled` or `bound`.
    pub class: String,
    /// The mapping for `mapping_2m`.
    pub mapping: Option<String>,
    /// The program of `mapping`, if several take turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<String>,
    /// The page size that it sets, such as `4K` or `2M`, if it sets one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_size: Option<String>,
    /// The level of the caches that `double_ways` widens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_level: Option<u32>,
    /// The title of the `kernel` row that is the baseline of a `recolored` row; left out where the first row is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub like: Option<String>,
    /// The instruction at which its counts start; 0 for the whole run.
    pub from_instruction: u64,
    /// The instruction at which its counts end, if that is before the end of the run: from there on, its mapping cost
    /// too little to follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_instruction: Option<u64>,
    /// Walks.
    pub walks: u64,
    /// Modelled walk cycles.
    pub walk_cycles: u64,
    /// Walks of the baseline over the same stretch.
    pub baseline_walks: u64,
    /// Walk cycles of the baseline over the same stretch.
    pub baseline_walk_cycles: u64,
    /// What it changes in caches of memory; left out without caches, and for bounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caches: Option<CacheChange>,
    /// Memory backed beyond the baseline and never touched, in MiB; of a `kernel` row, all that it backed and the
    /// program had not touched yet, at most.
    pub memory_price_mib: f64,
}

/// What an alternative changes in caches of memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CacheChange {
    /// Accesses of the program and of its walks that miss the caches of each level, level 1 first.
    pub misses: Vec<u64>,
    /// Modelled cycles that the program's references wait beyond their fastest access.
    pub stall_cycles: u64,
    /// Misses of the baseline over the same stretch.
    pub baseline_misses: Vec<u64>,
    /// Waits of the baseline over the same stretch.
    pub baseline_stall_cycles: u64,
}
