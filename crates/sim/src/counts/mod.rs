//! The counts of one design, final and exact.

mod caches;
mod misses;
mod ranges;
mod side;
mod software;
mod space;
mod sum;

pub(crate) use caches::cache_totals;
pub use caches::{CacheCosts, CacheTotals};
pub(crate) use misses::MissCounts;
pub(crate) use ranges::RangeLengths;
pub use ranges::RangeTotals;
pub use side::DataSideTotals;
pub use software::SoftwareTotals;
pub use space::SpaceCounts;
pub(crate) use sum::{add_caches, sum};

use crate::caches::MemoryCounts;
use pagewalk_cost::{CyclePrices, Cycles};
use pagewalk_mm::{Accounts, KernelCounts, MemorySample, MemoryTotals, OomKill};
use pagewalk_translate::{CostSpec, NestedCounts, PrefetchCounts};

/// Lookups and hits of one named array or walk cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassCounts {
    /// The array's name in its machine.
    pub name: String,
    /// TLB level; 0 for walk caches.
    pub level: u8,
    /// Times it was probed.
    pub lookups: u64,
    /// Times the entry was there.
    pub hits: u64,
}

/// What the prefetcher of one named array did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefetchTotals {
    /// The array's name in its machine.
    pub name: String,
    /// Its counts.
    pub counts: PrefetchCounts,
}

/// All counts of one design.
// Many fields: one per count; results list them by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DesignCounts {
    /// The design's name.
    pub name: String,
    /// Instructions executed.
    pub instructions: u64,
    /// Instructions among them that threads spent spinning.
    pub spin_instructions: u64,
    /// Data references.
    pub data_references: u64,
    /// Fetch references: one per instruction; 0 for a data side.
    pub fetch_references: u64,
    /// Base pages touched; a page touched again after unmapping counts again. 0 for a data side, which sees a page
    /// first at a walk.
    pub pages_touched: u64,
    /// Translations that fetches and data references looked up.
    pub translations: [u64; 2],
    /// TLB arrays in the machine's order.
    pub arrays: Vec<ClassCounts>,
    /// Misses of each level, level 1 first: no array of the level has the page.
    pub level_misses: Vec<u64>,
    /// First-level misses that a lower level or a prefetch buffer served.
    pub lower_hits: u64,
    /// Walks by fetches.
    pub walks_fetch: u64,
    /// Walks by data references.
    pub walks_data: u64,
    /// Page-table entries read by walks.
    pub walk_references: u64,
    /// Entries that a nested walker read, by dimension; includes reads for prefetches.
    pub nested_walk_references: Option<NestedCounts>,
    /// Prefetchers, in the machine's order.
    pub prefetchers: Vec<PrefetchTotals>,
    /// Page-walk caches, deepest level first.
    pub walk_caches: Vec<ClassCounts>,
    /// Caches of memory by requester, in the machine's order; reads for prefetches count as walks.
    pub caches: Vec<CacheTotals>,
    /// The memory behind the caches, if there are caches.
    pub memory: Option<MemoryCounts>,
    /// Most bytes backed at one time and never touched.
    pub untouched_bytes: u64,
    /// Counts of the design's own kernel.
    pub kernel: Option<KernelTotals>,
    /// Counts of a software-managed TLB whose page tables are mapped.
    pub software: Option<SoftwareTotals>,
    /// Misses of the host's TLB, each a trap, if traps simulate the design.
    pub host_misses: Option<u64>,
    /// Counts of a data side.
    pub data_side: Option<Box<DataSideTotals>>,
    /// Memory over time, under the design's own kernel.
    pub memory_samples: Vec<MemorySample>,
    /// Modelled cycles without the kernel's.
    pub cycles: Cycles,
}

/// The work of a design's kernel and its cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelTotals {
    /// Cycles by account.
    pub accounts: Accounts,
    /// Events.
    pub counts: KernelCounts,
    /// Whether it places pages by color.
    pub places: bool,
    /// The physical memory at the end, if it has one.
    pub memory: Option<MemoryTotals>,
    /// How the kernel killed the process, if it did. All counts of the design end there.
    pub killed: Option<OomKill>,
}

impl KernelTotals {
    /// The totals of two processes together.
    pub(crate) fn and(self, other: KernelTotals) -> KernelTotals {
        KernelTotals {
            accounts: self.accounts + other.accounts,
            counts: self.counts + other.counts,
            places: self.places || other.places,
            memory: self.memory.or(other.memory),
            killed: self.killed.or(other.killed),
        }
    }
}

impl DesignCounts {
    /// Walks in all.
    pub fn walks(&self) -> u64 {
        self.walks_fetch + self.walks_data
    }

    /// Fills in the misses of lower levels: what misses one level goes to the next. Valid only for all cores together:
    /// a core's hits in a shared array may exceed its own misses.
    pub(crate) fn with_level_misses(mut self) -> DesignCounts {
        let last = self.arrays.iter().map(|array| array.level).max().unwrap_or(1);
        for level in 2..=last {
            let hits: u64 =
                self.arrays.iter().filter(|array| array.level == level).map(|array| array.hits).sum();
            self.level_misses.push(self.level_misses[self.level_misses.len() - 1] - hits);
        }
        self
    }
}

pub(crate) fn prices(cost: &CostSpec) -> CyclePrices {
    CyclePrices { lower_hit: cost.l2_hit, instruction: cost.cycles_per_instruction }
}
