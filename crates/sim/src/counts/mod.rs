//! The counts of one design, final and exact.

mod misses;
mod ranges;
mod side;
mod software;
mod space;
mod sum;

pub(crate) use misses::MissCounts;
pub(crate) use ranges::RangeLengths;
pub use ranges::RangeTotals;
pub use side::DataSideTotals;
pub use software::SoftwareTotals;
pub use space::SpaceCounts;
pub(crate) use sum::{add_caches, sum};

use crate::caches::Memory;
use pagewalk_cache::{CacheCounts, CacheSpec, Requester};
use pagewalk_cost::{Cycles, Prices};
use pagewalk_mm::{Accounts, KernelCounts, Killed, MemorySample, MemoryTotals};
use pagewalk_translate::{CostSpec, MachineSpec, NestedCounts, PrefetchCounts};

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

/// What one requester did in one cache of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheTotals {
    /// The cache's name in its machine.
    pub name: String,
    /// Whose accesses.
    pub requester: Requester,
    /// Their counts.
    pub counts: CacheCounts,
}

/// All counts of one design.
// Many fields: one for each kind of count; results list them by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DesignCounts {
    /// The design's name.
    pub name: String,
    /// Instructions executed.
    pub instructions: u64,
    /// Of those, how many were a thread waiting by spinning.
    pub spin_instructions: u64,
    /// Data references.
    pub data_references: u64,
    /// Fetch references: one per instruction; 0 of a data side.
    pub fetch_references: u64,
    /// Base pages touched (again after they were unmapped counts again); 0 of a data side, which meets a page when it
    /// walks for it.
    pub pages_touched: u64,
    /// Translations that its arrays were asked for, by fetches and by data references.
    pub translations: [u64; 2],
    /// TLB arrays in the machine's order.
    pub arrays: Vec<ClassCounts>,
    /// Misses of each level as a whole, level 1 first: no array of it had the page.
    pub level_misses: Vec<u64>,
    /// First-level misses that a lower level or a prefetch buffer served.
    pub lower_hits: u64,
    /// Walks by fetches.
    pub walks_fetch: u64,
    /// Walks by data references.
    pub walks_data: u64,
    /// Page-table entries read by walks.
    pub walk_references: u64,
    /// Those of a nested walker by dimension; reads for prefetches count here too.
    pub nested_walk_references: Option<NestedCounts>,
    /// Prefetchers, in the machine's order.
    pub prefetchers: Vec<PrefetchTotals>,
    /// Page-walk caches, deepest level first.
    pub walk_caches: Vec<ClassCounts>,
    /// Caches of memory by requester, in the machine's order; reads for prefetches are walks too.
    pub caches: Vec<CacheTotals>,
    /// Page-table entries that walks read from memory, where there are caches.
    pub walk_references_in_memory: Option<u64>,
    /// Most bytes that were backed and never touched at one time.
    pub untouched_bytes: u64,
    /// Of a kernel of its own.
    pub kernel: Option<KernelTotals>,
    /// Of a software-managed TLB whose page tables are mapped.
    pub software: Option<SoftwareTotals>,
    /// Of a data side.
    pub data_side: Option<Box<DataSideTotals>>,
    /// Memory over time, under a kernel of its own.
    pub memory_samples: Vec<MemorySample>,
    /// Modelled cycles, but for the kernel's.
    pub cycles: Cycles,
}

/// What a design's kernel did, and what that cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelTotals {
    /// Cycles by account.
    pub accounts: Accounts,
    /// Events.
    pub counts: KernelCounts,
    /// The physical memory at the end, if it has one.
    pub memory: Option<MemoryTotals>,
    /// How the process ended, if the kernel killed it: all counts of the design are those until then.
    pub killed: Option<Killed>,
}

impl KernelTotals {
    /// Those of two processes together.
    pub(crate) fn and(self, other: KernelTotals) -> KernelTotals {
        KernelTotals {
            accounts: self.accounts + other.accounts,
            counts: self.counts + other.counts,
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

    /// Tells the misses of lower levels too: what one level's arrays did not hit goes to the next. Only of all cores
    /// together, as one core's share of an array that cores share may hold more hits than its own misses.
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

pub(crate) fn cache_totals(machine: &MachineSpec, memory: &Memory) -> Vec<CacheTotals> {
    let of_cache = |(index, cache): (usize, &CacheSpec)| -> Vec<CacheTotals> {
        let totals = cache.serves.iter().map(|requester| CacheTotals {
            name: cache.name.clone(),
            requester,
            counts: memory.hierarchy.counts(index, requester),
        });
        totals.collect()
    };
    machine.caches.iter().enumerate().flat_map(of_cache).collect()
}

pub(crate) fn prices(cost: &CostSpec) -> Prices {
    Prices { lower_hit: cost.l2_hit, instruction: cost.cycles_per_instruction }
}
