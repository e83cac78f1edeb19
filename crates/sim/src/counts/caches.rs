//! Counts of caches of memory.

use super::DesignCounts;
use crate::caches::MemoryCaches;
use pagewalk_cache::{CacheCounts, CacheSpec, Hierarchy, LEVELS, Requester};
use pagewalk_translate::MachineSpec;

/// What one requester did in one cache of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheTotals {
    /// The cache's name in its machine.
    pub name: String,
    /// Its level.
    pub level: u8,
    /// Whose accesses.
    pub requester: Requester,
    /// Their counts.
    pub counts: CacheCounts,
}

/// What caches of memory cost a design.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCosts {
    /// Accesses of the program and of walks that miss the caches of each level, level 1 first.
    pub misses: [u64; LEVELS],
    /// Modelled cycles that references of the program wait.
    pub stall_cycles: u64,
}

impl CacheCosts {
    /// The costs of caches with these counts, for which the program waits so long.
    pub(crate) fn of(caches: &[CacheTotals], stall_cycles: u64) -> CacheCosts {
        let mut misses = [0; LEVELS];
        for CacheTotals { level, counts, .. } in caches {
            misses[usize::from(*level) - 1] += counts.lookups - counts.hits;
        }
        CacheCosts { misses, stall_cycles }
    }

    /// What is new since an earlier time of the same run.
    pub(crate) fn since(&self, earlier: &CacheCosts) -> CacheCosts {
        let misses = std::array::from_fn(|level| self.misses[level] - earlier.misses[level]);
        CacheCosts { misses, stall_cycles: self.stall_cycles - earlier.stall_cycles }
    }
}

impl DesignCounts {
    /// What its caches of memory cost; none if it has no caches.
    pub fn cache_costs(&self) -> Option<CacheCosts> {
        self.memory.map(|memory| CacheCosts::of(&self.caches, memory.stall_cycles))
    }
}

/// The counts of a machine's caches. `first`: the caches of another design that has the first level for these.
pub(crate) fn cache_totals(
    machine: &MachineSpec,
    memory: &MemoryCaches,
    first: Option<&Hierarchy>,
) -> Vec<CacheTotals> {
    let lower = |index: usize| machine.caches[..index].iter().filter(|cache| cache.level > 1).count();
    let of_cache = |(index, cache): (usize, &CacheSpec)| -> Vec<CacheTotals> {
        let (hierarchy, index) = match first {
            None => (&memory.hierarchy, index),
            Some(first) if cache.level == 1 => (first, index),
            Some(_) => (&memory.hierarchy, lower(index)),
        };
        let totals = cache.serves.iter().map(|requester| CacheTotals {
            name: cache.name.clone(),
            level: cache.level,
            requester,
            counts: hierarchy.counts(index, requester),
        });
        totals.collect()
    };
    machine.caches.iter().enumerate().flat_map(of_cache).collect()
}
