//! The result of a run, as data. `--json` writes exactly this; the HTML report embeds exactly this.
//!
//! Every number has a name, a unit (last in the name where it is not a count) and a class: counts of
//! the simulation are *modelled* (exact for the machine described); instructions, references and pages
//! touched are *measured* on the program; a perfect TLB is a *bound*.

use crate::groups;
use crate::metrics::Registered;
pub use crate::values::{Metrics, Number};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The schema name that every result carries.
pub const RESULT_SCHEMA: &str = "pagewalk.result/2";
/// That of older results, which are read too: they had cores, processes, kernels and servers among mappings.
pub const RESULT_SCHEMA_1: &str = "pagewalk.result/1";

/// One run of `profile` or `simulate`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunResult {
    /// [`RESULT_SCHEMA`].
    pub schema: String,
    /// What made this result.
    pub tool: Tool,
    /// Where the program ran.
    pub host: Host,
    /// How each machine is built, in the order of `machines`; empty in results that do not say.
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
    /// The capture engine with its version, or the file the stream came from.
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

/// How a machine is built: what its file says, so that a reader can check what was modelled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MachineDescription {
    /// The machine's name.
    pub name: String,
    /// Its TLBs, level by level.
    pub tlbs: Vec<TlbDescription>,
    /// Base page of its kernel, such as `4K`: the page that `pages_touched` counts.
    #[serde(default = "four_kib")]
    pub base_page: String,
    /// Huge page of its kernel, such as `2M`.
    #[serde(default = "two_mib")]
    pub huge_page: String,
    /// What finds translations that no TLB has, such as `radix, x86-64, 4 levels`.
    #[serde(default)]
    pub walker: String,
    /// Levels of the radix page table; 0 where there is none.
    pub walk_levels: u32,
    /// Its page-walk caches.
    pub walk_caches: Vec<WalkCacheDescription>,
    /// Cycles per event, by the key of the machine file, such as `l2_hit`.
    pub cost: Metrics,
}

/// The pages of every machine before results told them.
fn four_kib() -> String {
    "4K".to_owned()
}

fn two_mib() -> String {
    "2M".to_owned()
}

/// One TLB array.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TlbDescription {
    /// Its name, as in the metrics `tlb.NAME.lookups`.
    pub name: String,
    /// 1 or 2.
    pub level: u32,
    /// Which references look it up: `fetch`, `load`, `store`.
    pub serves: Vec<String>,
    /// The page sizes it holds: `4K`, `2M`, `1G` …
    pub page_sizes: Vec<String>,
    /// Number of entries.
    pub entries: u64,
    /// Neighbouring pages that one entry maps.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub pages_per_entry: u64,
    /// Those of them that no miss fills.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reserved: u64,
    /// Ways of a set; as many as entries when fully associative.
    pub ways: u64,
    /// What leaves a full set: a policy as machine files name them, such as `lru` or `tree-plru`.
    #[serde(default = "least_recently_used")]
    pub replacement: String,
    /// What is put into it: `walks` or `victims` of the level above.
    #[serde(default = "walks", skip_serializing_if = "is_walks")]
    pub fills: String,
    /// Entries of the buffer of its prefetcher of next pages, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefetch_entries: Option<u64>,
}

/// What filled arrays before results told it.
fn walks() -> String {
    "walks".to_owned()
}

fn is_walks(fills: &str) -> bool {
    fills == "walks"
}

fn one() -> u64 {
    1
}

fn is_one(count: &u64) -> bool {
    *count == 1
}

fn usual_page() -> u64 {
    4096
}

fn is_usual_page(bytes: &u64) -> bool {
    *bytes == 4096
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// What arrays did before results told it.
fn least_recently_used() -> String {
    "lru".to_owned()
}

/// One page-walk cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WalkCacheDescription {
    /// Its name, as in the metrics `walk_cache.NAME.lookups`.
    pub name: String,
    /// Number of entries.
    pub entries: u64,
    /// Ways of a set; as many as entries when fully associative.
    pub ways: u64,
}

/// Counters of one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MachineResult {
    /// The machine's name.
    pub name: String,
    /// Its counters, such as `instructions`, `references`, `tlb.l1d.lookups`, `tlb.l1d.misses`,
    /// `walks`, `walk_references`, `walk_cycles`, `walk_cycle_share`.
    #[schemars(with = "Registered")]
    pub metrics: Metrics,
    /// Where the partition of a software-managed TLB went, its start first; empty where it does not move, and in sums
    /// over processes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partition: Vec<PartitionMove>,
}

impl MachineResult {
    /// Counters without a partition that moves.
    pub fn new(name: impl Into<String>, metrics: Metrics) -> MachineResult {
        MachineResult { name: name.into(), metrics, partition: Vec::new() }
    }
}

/// The partition of a software-managed TLB from one move to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PartitionMove {
    /// Instructions executed when it came there; 0 at the start.
    pub instructions: u64,
    /// Slots below it from then on.
    pub lower: u32,
}

/// One process image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessResult {
    /// Process id.
    pub pid: u32,
    /// Parent's process id.
    pub parent: u32,
    /// `start`, `fork`, `exec` or `import`; `interleaved`: several processes that take turns.
    pub origin: String,
    /// Path of the program.
    pub program: String,
    /// Its command line.
    pub command_line: Vec<String>,
    /// How it ended: `exit 0`, `signal 9`, `exec`, `unknown` …
    pub ended: String,
    /// What was lost or cut off, in plain words; empty when the stream is whole.
    pub losses: Vec<String>,
    /// Which of the losses is the rest of the program: then the figures are of its beginning only, and there is no
    /// advice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut_short: Option<String>,
    /// What the process forbade of transparent huge pages at its end (`prctl(PR_SET_THP_DISABLE)`): `all`, or
    /// `except_advised`; left out where it forbade nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thp_disable: Option<String>,
    /// The structure of the operating system that it ran in, where one was asked for: counters of the machines are of
    /// the kernel's and the servers' references too, which `kernel_references` and `server_references` count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structure: Option<String>,
    /// Counters per machine.
    pub machines: Vec<MachineResult>,
    /// Who pays, on the first machine.
    pub attribution: Attribution,
    /// Walks over address space and time, on the first machine.
    pub heat: Heat,
    /// Misses against the number of second-level entries, on the first machine.
    pub reach: Vec<ReachPoint>,
    /// What would change it, on the first machine. The first entry is the baseline itself.
    pub what_if: Vec<WhatIf>,
    /// The machines under several kernels, the host's first for each, where that was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernels: Vec<KernelResult>,
    /// One plain sentence.
    pub advice: String,
}

impl ProcessResult {
    /// Takes note of whether the rest of the program is among what was lost. Figures of a beginning are no ground for
    /// advice.
    pub fn note_cut(&mut self) {
        self.cut_short = self.losses.iter().find(|loss| loss.starts_with(REST_LOST)).cloned();
        if self.cut_short.is_some() {
            self.advice.clear();
        }
    }
}

/// How a loss of all that a program does from some point on begins.
pub const REST_LOST: &str = "the rest of the program";

/// Walks by mapping, function and page.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Attribution {
    /// By mapping, costliest first; empty where the pages of mappings are not told apart: with `--os`, and where
    /// several processes, cores or an operating system's servers share a machine.
    pub mappings: Vec<MappingRow>,
    /// By function, costliest first.
    pub functions: Vec<FunctionRow>,
    /// By page, costliest first (the costliest thousand).
    pub pages: Vec<PageRow>,
    /// Pages with walks that the list of pages leaves out.
    pub pages_left_out: u64,
    /// Parts of what ran that have counters of their own, on the first machine; left out where there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Group>,
}

/// A part of what ran that has counters of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Group {
    /// What kind of part it is: one of [`DIVISIONS`](crate::groups::DIVISIONS).
    #[schemars(extend("enum" = groups::ids(), "description" = groups::about()))]
    pub kind: String,
    /// What tells it from others of its kind.
    pub name: String,
    /// Its counters, by their names in the registry.
    #[schemars(with = "Registered")]
    pub metrics: Metrics,
}

/// One mapping, or all mappings of one file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MappingRow {
    /// `[heap]`, `[stack]`, `[anonymous 1.5G]`, a file's path …
    pub name: String,
    /// `heap`, `stack`, `anonymous`, `shared_anonymous`, `file`, `shared_file`, `kernel` (its vdso), `unknown`.
    pub kind: String,
    /// Who had more than half of it mapped, past the allocator: `build (join.c:17)`. Left out where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_by: Option<String>,
    /// GNU build-id of the file, where it has one.
    pub build_id: Option<String>,
    /// Lowest address.
    pub start: u64,
    /// Largest size it had, bytes.
    pub bytes: u64,
    /// Bytes of its pages: 4096, and left out, or more where the program has it from hugetlb.
    #[serde(default = "usual_page", skip_serializing_if = "is_usual_page")]
    pub page_bytes: u64,
    /// Huge pages' worth of it, of the first machine, that were first touched while it did not hold all of them yet,
    /// and
    /// so on base pages: the kernel would have given them a huge page otherwise.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub late_blocks: u64,
    /// The same where it would not have: huge pages are off, or only for what is advised.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub late_blocks_small_anyway: u64,
    /// Base pages of the first machine touched.
    pub pages_touched: u64,
    /// References to it: fetches.
    pub references_fetch: u64,
    /// References to it: loads, stores, modifies.
    pub references_data: u64,
    /// Walks by fetches.
    pub walks_fetch: u64,
    /// Walks by data references.
    pub walks_data: u64,
    /// Modelled cycles of those walks.
    pub walk_cycles: u64,
}

impl MappingRow {
    /// Its name for people, with who made it.
    pub fn label(&self) -> String {
        match &self.made_by {
            Some(who) => format!("{} by {who}", self.name),
            None => self.name.clone(),
        }
    }
}

/// What stands behind an object's name where a function has none and the object was stripped of the names of all its
/// own functions: `libfoo.so (stripped)+0x1200`, with the place in the file.
pub const STRIPPED: &str = " (stripped)";
/// The same of an object that has names, but not there.
pub const NO_SYMBOL: &str = " (no symbol)";

/// One function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FunctionRow {
    /// Demangled name; where there is none, the object with [`STRIPPED`] or [`NO_SYMBOL`] and the place in its file
    /// where the function begins (or its 4 KiB, where that is unknown), or the address.
    pub name: String,
    /// Path of the object that holds it.
    pub object: String,
    /// Source file, where debug information exists.
    pub file: Option<String>,
    /// Line of its costliest walk, where debug information exists.
    pub line: Option<u32>,
    /// Walks by fetches of its code.
    pub walks_fetch: u64,
    /// Walks by its data references.
    pub walks_data: u64,
    /// Modelled cycles of those walks.
    pub walk_cycles: u64,
}

/// One base page of the first machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PageRow {
    /// Its first byte.
    pub address: u64,
    /// The mapping's name as in [`MappingRow::name`].
    pub mapping: String,
    /// Walks by fetches.
    pub walks_fetch: u64,
    /// Walks by data references.
    pub walks_data: u64,
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

/// Walks over address space and time: a picture's data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Heat {
    /// Instructions per column.
    pub instructions_per_column: u64,
    /// Number of columns.
    pub columns: u32,
    /// Rows by ascending address; only rows with walks.
    pub rows: Vec<HeatRow>,
}

/// One row of the picture: a piece of address space.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeatRow {
    /// First byte; 0 of the row of many mappings.
    pub start: u64,
    /// Bytes per row; 0 of the row of many mappings.
    pub bytes: u64,
    /// The mapping's name as in [`MappingRow::name`]; of the row of many, how many.
    pub mapping: String,
    /// Walks per column.
    pub walks: Vec<u64>,
}

/// One point of the curve "walks against reach".
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReachPoint {
    /// Page size of the run, such as `4K` or `2M`.
    pub page_size: String,
    /// Entries of the last-level TLB.
    pub entries: u64,
    /// Bytes that those entries map.
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
    /// `host`, or the policy with the keys that were given.
    pub policy: String,
    /// `modelled` or `bound`.
    pub class: String,
    /// Its counters: those of [`MachineResult`], and for kernels that build superpages `kernel.promotions`,
    /// `kernel.copy_cycles` and others.
    #[schemars(with = "Registered")]
    pub metrics: Metrics,
    /// Memory over time, for kernels of their own: at multiples of an interval of instructions, a power of two.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<MemoryPoint>,
}

/// What a kernel backs at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryPoint {
    /// Instructions executed: what was so before anything happened at the last of them.
    pub instructions: u64,
    /// Bytes backed.
    pub backed_bytes: u64,
    /// Bytes of base pages that the program has touched, of those.
    pub touched_bytes: u64,
}

/// One alternative, simulated in the same pass.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WhatIf {
    /// `baseline`, `all_4k`, `thp`, `all_2m`, `mapping_2m`, `double_tlb`, `perfect_tlb`; where processes take turns
    /// `flush`, `identifiers`, `global` or `no_global`, `alone`; on several cores `private`, `shared`, `one_core`;
    /// with `--os` `kernel`. Ids keep these names on machines with
    /// other pages than 4K and 2M: `page_size` says them.
    pub id: String,
    /// For people, such as `[heap] alone on 2 MB pages`.
    pub title: String,
    /// `modelled` or `bound`.
    pub class: String,
    /// The mapping for `mapping_2m`.
    pub mapping: Option<String>,
    /// The page size that it gives, such as `4K` or `2M`, where it gives one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_size: Option<String>,
    /// Instruction number from which it was counted (0: the whole run).
    pub from_instruction: u64,
    /// Instruction number up to which it was counted, where that is not the end of the run: its mapping
    /// cost nothing worth saving any more.
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
    /// Memory newly backed but never touched, MiB.
    pub memory_price_mib: f64,
}
