//! Descriptions of machines in results: what a reader needs to check the model.

use crate::values::Metrics;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The description of a machine from its file, so that a reader can check the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MachineDescription {
    /// The machine's name.
    pub name: String,
    /// Its TLBs, level by level.
    pub tlbs: Vec<TlbDescription>,
    /// Base page of its kernel, such as `4K`; `pages_touched` counts these.
    #[serde(default = "four_kib")]
    pub base_page: String,
    /// Huge page of its kernel, such as `2M`.
    #[serde(default = "two_mib")]
    pub huge_page: String,
    /// Its walker, such as `radix, x86-64, 4 levels`.
    #[serde(default)]
    pub walker: String,
    /// Levels of the radix page table; 0 if it has none.
    pub walk_levels: u32,
    /// Its page-walk caches.
    pub walk_caches: Vec<WalkCacheDescription>,
    /// Its caches of memory, level by level.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caches: Vec<CacheDescription>,
    /// Cycles per event, by key of the machine file, such as `l2_hit`.
    pub cost: Metrics,
}

/// The page size in older results, which do not tell it.
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
    /// The references that look it up: `fetch`, `load`, `store`.
    pub serves: Vec<String>,
    /// Its page sizes: `4K`, `2M`, `1G` …
    pub page_sizes: Vec<String>,
    /// Number of entries.
    pub entries: u64,
    /// Neighbouring pages that one entry maps.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub pages_per_entry: u64,
    /// Entries that no miss fills.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reserved: u64,
    /// Ways of a set; equal to `entries` if fully associative.
    pub ways: u64,
    /// The replacement policy, as in machine files: `lru`, `tree-plru` …
    #[serde(default = "least_recently_used")]
    pub replacement: String,
    /// What fills it: `walks`, or `victims` of the level above.
    #[serde(default = "walks", skip_serializing_if = "is_walks")]
    pub fills: String,
    /// Entries of its next-page prefetcher's buffer, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefetch_entries: Option<u64>,
}

/// What fills arrays in older results, which do not tell it.
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

fn is_no(holds: &bool) -> bool {
    !holds
}

pub(crate) fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The replacement policy in older results, which do not tell it.
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
    /// Ways of a set; equal to `entries` if fully associative.
    pub ways: u64,
}

/// One cache of memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CacheDescription {
    /// Its name, as in the metrics `cache.NAME.load_lookups`.
    pub name: String,
    /// 1 for the nearest.
    pub level: u32,
    /// The accesses that look it up: `fetch`, `load`, `store`, `walk`.
    pub serves: Vec<String>,
    /// Its size.
    pub bytes: u64,
    /// Bytes of a line.
    pub line_bytes: u64,
    /// Ways of a set.
    pub ways: u64,
    /// Colors of base pages; 0 if frames do not tell the sets of its lines: virtual addresses or a hash find them, or
    /// it holds victims.
    pub colors: u64,
    /// Cycles of an access that ends here.
    pub latency: u64,
    /// Whether it passes stores on and allocates nothing for them.
    pub writes_through: bool,
    /// Whether it holds what the cache above evicts.
    pub holds_victims: bool,
    /// Whether all cores share it.
    #[serde(default, skip_serializing_if = "is_no")]
    pub shared: bool,
}
