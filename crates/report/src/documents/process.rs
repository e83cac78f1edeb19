//! The results of `promote` and `advise --pid`.

use crate::classes::{Class, Classes};
use crate::huge_pages::schema::{AssumedFigure, HostSetting};
use schemars::JsonSchema;
use serde::Serialize;

/// Schema of `promote`.
pub const PROMOTE_SCHEMA: &str = "pagewalk.promote/1";
/// Schema of `advise --pid`.
pub const ADVICE_PROCESS_SCHEMA: &str = "pagewalk.advice-process/1";

/// The outcome of promoting a running process.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PromoteResult {
    /// [`PROMOTE_SCHEMA`].
    pub schema: &'static str,
    /// The process.
    pub process: i32,
    /// Its program.
    pub program: String,
    /// What ended the promotion: `process`, `interrupted`, `time` or `unsampled`.
    pub ended: &'static str,
    /// Whether this was a dry run.
    pub dry_run: bool,
    /// The source of samples.
    pub sampler: &'static str,
    /// What a sample is.
    pub samples_are: &'static str,
    /// Samplers that do not work on this host.
    pub unable: Vec<UnavailableSampler>,
    /// Notes for the reader.
    pub notes: Vec<String>,
    /// The limits in force.
    pub limits: PromoteLimits,
    /// The prices that decisions use.
    pub prices: PromotePrices,
    /// Memory of the process other than ordinary pages.
    pub survey: MemorySurvey,
    /// Seconds that the promotion took.
    pub seconds: f64,
    /// The process's processor time, in seconds.
    pub processor_seconds: f64,
    /// Processor time of pagewalk and the kernel, in seconds.
    pub own_processor_seconds: Overhead,
    /// That time as a share of the process's.
    pub own_share: f64,
    /// The share that sampling takes.
    pub sampling_share: f64,
    /// Rounds.
    pub rounds: u64,
    /// Promotions.
    pub promotions: u64,
    /// Promotions that failed.
    pub failures: u64,
    /// Promoted parts found on small pages again, or partly gone.
    pub splits: u64,
    /// Bytes of memory that promotions added.
    pub added_bytes: u64,
    /// Parts whose promotion the budget forbids.
    pub over_budget: usize,
    /// The savings of promotions.
    pub gain: PromotionGain,
    /// Classes of figures.
    pub classes: Classes,
    /// Counts of 2 MiB parts.
    pub parts: PartCounts,
    /// Abandoned parts, by reason.
    pub left: Vec<AbandonedParts>,
    /// Adjacent parts, merged.
    pub ranges: Vec<PromotedRange>,
}

/// A sampler that does not work on this host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UnavailableSampler {
    /// The sampler.
    pub sampler: &'static str,
    /// Why.
    pub why: String,
    /// How to enable it.
    pub enable: String,
}

/// The limits of `promote`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PromoteLimits {
    /// The share of the break-even misses that a part needs.
    pub factor: f64,
    /// Most bytes that promotions may add.
    pub budget_bytes: u64,
    /// Largest share of the process's time that sampling may take.
    pub own_share: f64,
    /// Entries of the host's last TLB.
    pub tlb_entries: u32,
}

/// Prices in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PromotePrices {
    /// A walk that overlaps others.
    pub walk_nanoseconds: f64,
    /// A walk by itself.
    pub walk_alone_nanoseconds: f64,
    /// A promotion.
    pub promotion_nanoseconds: f64,
    /// The charges at which a part is first promoted.
    pub threshold_charges: f64,
    /// Assumptions for figures that the probe lacks.
    pub assumed: Vec<AssumedFigure>,
}

/// Memory of a process other than ordinary pages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MemorySurvey {
    /// Measured.
    pub class: Class,
    /// Memory in hugetlb pages.
    pub hugetlb: Vec<HugetlbPool>,
    /// The memory for which the process forbids huge pages: `all` or `unmarked`; null for none.
    pub process_forbids: Option<&'static str>,
    /// Bytes for which the program refuses huge pages.
    pub refused_bytes: u64,
    /// Memory that grew by less than 2 MiB at a time; null if there is none.
    pub grown: Option<GradualMemory>,
}

/// Hugetlb pages of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HugetlbPool {
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Memory that grew by less than 2 MiB at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct GradualMemory {
    /// 2 MiB regions.
    pub blocks: u64,
    /// Regions of the heap.
    pub heap_blocks: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Whether the cause is certain.
    pub certain: bool,
    /// The cause, in a sentence.
    pub why: String,
}

/// Processor time of pagewalk and the kernel, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Overhead {
    /// pagewalk's own.
    pub sampling: f64,
    /// Of the kernel threads that sample.
    pub kernel_thread: f64,
    /// Of promotions.
    pub promotions: f64,
}

/// The savings of promotions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PromotionGain {
    /// Modelled.
    pub class: Class,
    /// Misses.
    pub misses: f64,
    /// The least processor time saved, in seconds.
    pub processor_seconds_low: f64,
    /// The most processor time saved, in seconds.
    pub processor_seconds_high: f64,
}

/// Counts of 2 MiB parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PartCounts {
    /// All parts.
    pub all: usize,
    /// Watched parts.
    pub watched: usize,
    /// Parts promoted, or in a dry run due for promotion.
    pub promoted: usize,
    /// Parts on huge pages before.
    pub huge_before: usize,
    /// Abandoned parts.
    pub left: usize,
}

/// Parts abandoned for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AbandonedParts {
    /// The reason.
    pub reason: String,
    /// Their number.
    pub parts: u64,
}

/// Adjacent parts, merged.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PromotedRange {
    /// Its address, in hexadecimal.
    pub start: String,
    /// Its bytes.
    pub bytes: u64,
    /// Bytes promoted, or in a dry run due for promotion.
    pub promoted_bytes: u64,
    /// Bytes on huge pages before.
    pub huge_bytes_before: u64,
    /// Bytes of abandoned parts.
    pub left_bytes: u64,
    /// Misses per second of processor time at the last sampling.
    pub misses_per_second: f64,
    /// Charges of parts that were not promoted.
    pub charges: f64,
    /// Whether some part has as many misses as the sampler can see.
    pub saturated: bool,
}

/// What huge pages would save a running process.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AdviceProcessResult {
    /// [`ADVICE_PROCESS_SCHEMA`].
    pub schema: &'static str,
    /// The process.
    pub process: i32,
    /// Its program.
    pub program: String,
    /// The source of samples: a sampler, or `file`.
    pub sampler: &'static str,
    /// The file of samples; null if the process was watched.
    pub file: Option<String>,
    /// Seconds of sampling.
    pub seconds: f64,
    /// The process's processor time, in seconds.
    pub processor_seconds: f64,
    /// The sampling's processor time as a share of the process's.
    pub sampling_share: f64,
    /// Rounds.
    pub rounds: u64,
    /// The prices that decisions use.
    pub prices: AdvicePrices,
    /// Memory of the process other than ordinary pages.
    pub survey: MemorySurvey,
    /// Host settings that forbid huge pages.
    pub host_forbids: Vec<HostSetting>,
    /// The share of its time that all ranges together would save.
    pub share_saved: SavedShare,
    /// Classes of figures.
    pub classes: Classes,
    /// Ranges, the largest saving first.
    pub ranges: Vec<RangeAdvice>,
    /// The advice, in a sentence.
    pub verdict: String,
}

/// Prices in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AdvicePrices {
    /// A walk that overlaps others.
    pub walk_nanoseconds: f64,
    /// A walk by itself.
    pub walk_alone_nanoseconds: f64,
    /// A promotion.
    pub promotion_nanoseconds: f64,
    /// Assumptions for figures that the probe lacks.
    pub assumed: Vec<AssumedFigure>,
}

/// The share of a process's time saved.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SavedShare {
    /// Modelled.
    pub class: Class,
    /// Its lower bound; null if unknown.
    pub low: Option<f64>,
    /// Its upper bound; null if unknown.
    pub high: Option<f64>,
}

/// A range and what huge pages would save there.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RangeAdvice {
    /// The range's name, as in plans.
    pub range: String,
    /// Its address, in hexadecimal.
    pub start: String,
    /// Its bytes.
    pub bytes: u64,
    /// Walks per second of processor time.
    pub walks_per_processor_second: f64,
    /// Whether the sampler could not have seen more.
    pub at_least: bool,
    /// The share of the process's time that it would save.
    pub share_saved: SavedShare,
    /// MiB of memory that huge pages would add.
    pub memory_mib: f64,
}
