//! The hierarchy: which lines each cache holds, and where accesses end.

use crate::{CacheSpec, Requester};
use pagewalk_setassoc::SetArray;

/// Accesses of one requester to one cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Accesses that looked it up.
    pub lookups: u64,
    /// Accesses that found their line in it.
    pub hits: u64,
}

/// Where an access ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// In the cache with this index.
    Cache(usize),
    /// In memory.
    Memory,
}

/// The caches of one machine.
#[derive(Clone, Debug)]
pub struct Hierarchy {
    caches: Vec<Cache>,
    /// For each requester the caches that serve it, nearest first.
    paths: [Vec<usize>; Requester::ALL.len()],
    line_shift: u32,
    memory_latency: u64,
}

#[derive(Clone, Debug)]
struct Cache {
    array: SetArray,
    latency: u64,
    counts: [CacheCounts; Requester::ALL.len()],
    shared: bool,
}

impl Hierarchy {
    /// Empty caches. `memory_latency`: cycles of an access that no cache serves.
    ///
    /// # Panics
    /// If [`crate::check`] refuses the caches.
    pub fn new(caches: &[CacheSpec], memory_latency: u64) -> Hierarchy {
        let path = |requester: Requester| {
            let mut path: Vec<usize> =
                (0..caches.len()).filter(|&index| caches[index].serves.has(requester)).collect();
            path.sort_by_key(|&index| caches[index].level);
            path
        };
        let cache = |spec: &CacheSpec| Cache {
            array: spec.array(),
            latency: spec.latency,
            counts: Default::default(),
            shared: spec.shared,
        };
        Hierarchy {
            caches: caches.iter().map(cache).collect(),
            paths: Requester::ALL.map(path),
            line_shift: caches.first().map_or(0, |cache| cache.line_shift),
            memory_latency,
        }
    }

    /// Exchanges the caches that all cores share with those of another core of the same machine.
    pub fn swap_shared(&mut self, other: &mut Hierarchy) {
        let pairs = self.caches.iter_mut().zip(&mut other.caches);
        pairs.filter(|(own, _)| own.shared).for_each(|(own, other)| std::mem::swap(own, other));
    }

    /// One access to the line of a physical address.
    pub fn access(&mut self, requester: Requester, address: u64) -> Served {
        let line = address >> self.line_shift;
        let path = &self.paths[requester as usize];
        for (depth, &index) in path.iter().enumerate() {
            let cache = &mut self.caches[index];
            let counts = &mut cache.counts[requester as usize];
            counts.lookups += 1;
            if cache.array.touch(line, line) {
                counts.hits += 1;
                self.fill(requester, depth, line);
                return Served::Cache(index);
            }
        }
        self.fill(requester, path.len(), line);
        Served::Memory
    }

    /// Fills the caches before `depth` on the requester's path.
    fn fill(&mut self, requester: Requester, depth: usize, line: u64) {
        for &index in &self.paths[requester as usize][..depth] {
            self.caches[index].array.insert(line, line);
        }
    }

    /// Accesses to all lines of some bytes, at least one, in ascending order.
    pub fn access_bytes(&mut self, requester: Requester, address: u64, bytes: u64) {
        let last = address + (bytes.max(1) - 1);
        for line in address >> self.line_shift..=last >> self.line_shift {
            self.access(requester, line << self.line_shift);
        }
    }

    /// Cycles of an access that ended there.
    pub fn latency(&self, served: Served) -> u64 {
        match served {
            Served::Cache(index) => self.caches[index].latency,
            Served::Memory => self.memory_latency,
        }
    }

    /// Counts of the cache with this index, for one requester.
    pub fn counts(&self, index: usize, requester: Requester) -> CacheCounts {
        self.caches[index].counts[requester as usize]
    }
}
