//! What `promote` and `advise --pid` tell of a running process.

use crate::classes::{Class, Classes};
use crate::huge_pages::schema::{AssumedFigure, HostSetting};
use schemars::JsonSchema;
use serde::Serialize;

/// Schema of what `promote` writes.
pub const PROMOTE_SCHEMA: &str = "pagewalk.promote/1";
/// Schema of what `advise --pid` writes.
pub const ADVICE_PROCESS_SCHEMA: &str = "pagewalk.advice-process/1";

/// A process that was brought onto huge pages while it ran.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PromoteResult {
    /// [`PROMOTE_SCHEMA`].
    pub schema: &'static str,
    /// The process.
    pub process: i32,
    /// Its program.
    pub program: String,
    /// What ended it: `process`, `interrupted`, `time` or `unsampled`.
    pub ended: &'static str,
    /// Whether nothing was promoted.
    pub dry_run: bool,
    /// Where samples come from.
    pub sampler: &'static str,
    /// What they are.
    pub samples_are: &'static str,
    /// Samplers that do not work here.
    pub unable: Vec<Unable>,
    /// What should be known, in words.
    pub notes: Vec<String>,
    /// Bounds that were kept.
    pub limits: Limits,
    /// What is weighed.
    pub prices: PromotePrices,
    /// What the process's memory is besides.
    pub survey: Survey,
    /// Seconds that it took.
    pub seconds: f64,
    /// The process's processor time, in seconds.
    pub processor_seconds: f64,
    /// Processor time beside the process's, in seconds.
    pub own_processor_seconds: OwnTime,
    /// That, as a share of the process's.
    pub own_share: f64,
    /// The sampling's part of it.
    pub sampling_share: f64,
    /// Rounds.
    pub rounds: u64,
    /// Promotions.
    pub promotions: u64,
    /// Promotions that failed.
    pub failures: u64,
    /// Promoted parts that were found on small pages again.
    pub splits: u64,
    /// Bytes of memory that promotions added.
    pub added_bytes: u64,
    /// Parts whose promotion the budget forbids.
    pub over_budget: usize,
    /// What promotions saved.
    pub gain: Gain,
    /// What figures are.
    pub classes: Classes,
    /// Parts of 2 MiB, counted.
    pub parts: Parts,
    /// Parts that are no longer tried, by reason.
    pub left: Vec<LeftParts>,
    /// Parts that lie beside each other, together.
    pub ranges: Vec<PromotedRange>,
}

/// A sampler that does not work here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Unable {
    /// The sampler.
    pub sampler: &'static str,
    /// Why.
    pub why: String,
    /// What would enable it.
    pub enable: String,
}

/// Bounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Limits {
    /// The share of break-even that is asked of a part.
    pub factor: f64,
    /// Bytes that promotions may add.
    pub budget_bytes: u64,
    /// The share of the process's time that sampling may take.
    pub own_share: f64,
    /// Entries of the host's last TLB.
    pub tlb_entries: u32,
}

/// What is weighed, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PromotePrices {
    /// A walk among others.
    pub walk_nanoseconds: f64,
    /// A walk alone.
    pub walk_alone_nanoseconds: f64,
    /// A promotion.
    pub promotion_nanoseconds: f64,
    /// Charges at which a part is promoted first.
    pub threshold_charges: f64,
    /// Figures that the probe lacks.
    pub assumed: Vec<AssumedFigure>,
}

/// What a process's memory is besides ordinary pages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Survey {
    /// Measured.
    pub class: Class,
    /// Memory in pages that were set aside.
    pub hugetlb: Vec<Pool>,
    /// Whether the process forbids huge pages: to `all` memory or to `unmarked`; null if it does not.
    pub process_forbids: Option<&'static str>,
    /// Bytes that the program marked against huge pages.
    pub refused_bytes: u64,
    /// Memory that grew by less than 2 MiB at a time; null where there is none.
    pub grown: Option<Grown>,
}

/// Memory in pages of one size that were set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Pool {
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Bytes of all.
    pub bytes: u64,
}

/// Memory that grew by less than 2 MiB at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Grown {
    /// Blocks of 2 MiB.
    pub blocks: u64,
    /// Those of the heap.
    pub heap_blocks: u64,
    /// Bytes of all.
    pub bytes: u64,
    /// Whether that is certain.
    pub certain: bool,
    /// A sentence about it.
    pub why: String,
}

/// Processor time beside the process's, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct OwnTime {
    /// This program's.
    pub sampling: f64,
    /// That of the kernel's threads which sample.
    pub kernel_thread: f64,
    /// That of promotions.
    pub promotions: f64,
}

/// What promotions saved.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Gain {
    /// Modelled.
    pub class: Class,
    /// Misses.
    pub misses: f64,
    /// Processor time, in seconds: at least.
    pub processor_seconds_low: f64,
    /// At most.
    pub processor_seconds_high: f64,
}

/// Parts of 2 MiB, counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Parts {
    /// All.
    pub all: usize,
    /// Those that are watched.
    pub watched: usize,
    /// Those that were promoted, or would have been.
    pub promoted: usize,
    /// Those that were on huge pages before.
    pub huge_before: usize,
    /// Those that are no longer tried.
    pub left: usize,
}

/// Parts that are no longer tried for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LeftParts {
    /// The reason.
    pub reason: String,
    /// How many.
    pub parts: u64,
}

/// Parts that lie beside each other.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PromotedRange {
    /// Its address, in hexadecimal.
    pub start: String,
    /// Its bytes.
    pub bytes: u64,
    /// Those that were promoted, or would have been.
    pub promoted_bytes: u64,
    /// Those that were on huge pages before.
    pub huge_bytes_before: u64,
    /// Those that are no longer tried.
    pub left_bytes: u64,
    /// Misses in a second of processor time, when they were sampled last.
    pub misses_per_second: f64,
    /// Charges of those that were not promoted.
    pub charges: f64,
    /// Whether more misses could not have been seen in some.
    pub saturated: bool,
}

/// What huge pages would bring a running process.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AdviceProcessResult {
    /// [`ADVICE_PROCESS_SCHEMA`].
    pub schema: &'static str,
    /// The process.
    pub process: i32,
    /// Its program.
    pub program: String,
    /// Where samples come from.
    pub sampler: &'static str,
    /// Seconds that it was watched.
    pub seconds: f64,
    /// The process's processor time, in seconds.
    pub processor_seconds: f64,
    /// The sampling's processor time as a share of that.
    pub sampling_share: f64,
    /// Rounds.
    pub rounds: u64,
    /// What is weighed.
    pub prices: AdvicePrices,
    /// What the process's memory is besides.
    pub survey: Survey,
    /// Settings of the host that keep memory from huge pages.
    pub host_forbids: Vec<HostSetting>,
    /// The share of its time that all ranges would save.
    pub share_saved: SharedGain,
    /// What figures are.
    pub classes: Classes,
    /// Ranges, those that would save most first.
    pub ranges: Vec<AdvisedRange>,
    /// What to do, in words.
    pub verdict: String,
}

/// What is weighed, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AdvicePrices {
    /// A walk among others.
    pub walk_nanoseconds: f64,
    /// A walk alone.
    pub walk_alone_nanoseconds: f64,
    /// A promotion.
    pub promotion_nanoseconds: f64,
    /// Figures that the probe lacks.
    pub assumed: Vec<AssumedFigure>,
}

/// A share of a process's time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SharedGain {
    /// Modelled.
    pub class: Class,
    /// At least; null where nothing is known.
    pub low: Option<f64>,
    /// At most; null likewise.
    pub high: Option<f64>,
}

/// A range and what huge pages would bring it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AdvisedRange {
    /// The range, as plans call it.
    pub range: String,
    /// Its address, in hexadecimal.
    pub start: String,
    /// Its bytes.
    pub bytes: u64,
    /// Walks in a second of processor time.
    pub walks_per_processor_second: f64,
    /// Whether more could not have been seen.
    pub at_least: bool,
    /// The share of the process's time that it would save.
    pub share_saved: SharedGain,
    /// MiB of memory that it would take.
    pub memory_mib: f64,
}
