//! The cache hierarchy: which lines each cache holds, and at which level accesses hit.

use crate::cache::{Cache, Evicted};
use crate::path::{Path, victims_of};
use crate::{CacheAddress, CacheSpec, Requester};

/// Counts of one requester's accesses to one cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Accesses that looked up the cache.
    pub lookups: u64,
    /// Accesses that hit.
    pub hits: u64,
    /// Dirty lines that left the cache because of these accesses.
    pub writebacks: u64,
}

impl CacheCounts {
    /// Adds those of another core.
    pub fn add(&mut self, other: CacheCounts) {
        self.lookups += other.lookups;
        self.hits += other.hits;
        self.writebacks += other.writebacks;
    }
}

/// Where an access found its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataSource {
    /// In the cache with this index.
    Cache(usize),
    /// In memory.
    Memory,
}

/// The caches of one machine.
#[derive(Clone, Debug)]
pub struct Hierarchy {
    caches: Vec<Cache>,
    /// By requester.
    paths: [Path; Requester::ALL.len()],
    /// By cache: the one that takes what it evicts.
    victims: Vec<Option<usize>>,
    /// By cache.
    levels: Vec<u8>,
    line_shift: u32,
    memory_latency: u64,
    /// The cache whose misses are logged.
    watched: Option<usize>,
    /// The lines that missed it since the last call of [`Hierarchy::missed`].
    missed: Vec<LineMiss>,
}

/// A line that missed the watched cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineMiss {
    /// Who accessed it.
    pub requester: Requester,
    /// The physical address of its first byte.
    pub address: u64,
}

impl Hierarchy {
    /// Empty caches. `memory_latency`: cycles of an access that no cache serves.
    ///
    /// # Panics
    /// If [`crate::check`] refuses the caches.
    pub fn new(caches: &[CacheSpec], memory_latency: u64) -> Hierarchy {
        Hierarchy {
            caches: caches.iter().map(Cache::new).collect(),
            paths: Requester::ALL.map(|requester| Path::new(caches, requester, memory_latency)),
            victims: (0..caches.len()).map(|index| victims_of(caches, index)).collect(),
            levels: caches.iter().map(|cache| cache.level).collect(),
            line_shift: caches.first().map_or(0, |cache| cache.line_shift),
            memory_latency,
            watched: None,
            missed: Vec::new(),
        }
    }

    /// Logs the misses of a cache from now on.
    pub fn watch(&mut self, index: usize) {
        self.watched = Some(index);
    }

    /// Takes the lines that missed the watched cache since the last call.
    pub fn missed(&mut self) -> Vec<LineMiss> {
        std::mem::take(&mut self.missed)
    }

    /// Whether a line missed the watched cache since the last call of [`Hierarchy::missed`].
    #[inline]
    pub fn has_missed(&self) -> bool {
        !self.missed.is_empty()
    }

    /// Swaps the contents of the caches that all cores share with those of another core of the same machine.
    pub fn swap_shared(&mut self, other: &mut Hierarchy) {
        let pairs = self.caches.iter_mut().zip(&mut other.caches);
        pairs.filter(|(own, _)| own.shared).for_each(|(own, other)| std::mem::swap(own, other));
    }

    /// Accesses the line of an address; returns where the line was found.
    pub fn access(&mut self, requester: Requester, address: CacheAddress) -> DataSource {
        self.find::<true>(requester, address)
    }

    /// `COUNTED`: counts and logs the access.
    #[inline]
    fn find<const COUNTED: bool>(&mut self, requester: Requester, address: CacheAddress) -> DataSource {
        let path = &self.paths[requester as usize];
        for (depth, &index) in path.caches.iter().enumerate() {
            let cache = &mut self.caches[index];
            let passes_on = cache.passes_on[requester as usize];
            let soils = requester == Requester::Store && !passes_on && depth <= path.nearest_filled;
            let hit = cache.touch(address, soils);
            if COUNTED {
                let counts = &mut cache.counts[requester as usize];
                counts.lookups += 1;
                counts.hits += u64::from(hit);
                if !hit && self.watched == Some(index) {
                    let address = address.physical >> self.line_shift << self.line_shift;
                    self.missed.push(LineMiss { requester, address });
                }
            }
            if hit && !passes_on {
                if depth > path.nearest_filled {
                    let dirty = path.moves_up[depth] && cache.give(address) == Some(true);
                    self.fill::<COUNTED>(requester, depth, address, dirty);
                }
                return DataSource::Cache(index);
            }
        }
        self.fill::<COUNTED>(requester, path.caches.len(), address, false);
        DataSource::Memory
    }

    /// Fills the caches before `depth` on the requester's path, the farthest first. `dirty`: the line comes from there
    /// and is dirty.
    fn fill<const COUNTED: bool>(
        &mut self,
        requester: Requester,
        depth: usize,
        address: CacheAddress,
        mut dirty: bool,
    ) {
        let Path { nearest_filled, .. } = self.paths[requester as usize];
        for at in (nearest_filled..depth).rev() {
            let index = self.paths[requester as usize].caches[at];
            let cache = &mut self.caches[index];
            if cache.passes_on[requester as usize] || cache.holds_victims {
                continue;
            }
            if std::mem::take(&mut dirty) {
                if cache.may_be_dirty {
                    dirty = true;
                } else {
                    // The caller's cache holds it no more, and no store ends here.
                    let from = self.paths[requester as usize].caches[depth];
                    self.write_back::<COUNTED>(requester, from, address);
                }
            }
            let stored = requester == Requester::Store && at == nearest_filled;
            let evicted = self.caches[index].fill(address, std::mem::take(&mut dirty) | stored);
            if let Some(evicted) = evicted {
                self.evict::<COUNTED>(requester, index, evicted);
            }
        }
    }

    /// A line leaves a cache: for the victim cache below it, and if dirty for what lies below.
    fn evict<const COUNTED: bool>(&mut self, requester: Requester, mut from: usize, mut evicted: Evicted) {
        while let Some(victims) = self.victims[from] {
            self.caches[from].counts[requester as usize].writebacks += u64::from(COUNTED && evicted.dirty);
            let Some(next) = self.caches[victims].receive(evicted) else { return };
            (from, evicted) = (victims, next);
        }
        if evicted.dirty {
            self.write_back::<COUNTED>(requester, from, evicted.address);
        }
    }

    /// A cache writes a line back: the next cache that has it holds it dirty from now on, or memory takes it.
    fn write_back<const COUNTED: bool>(&mut self, requester: Requester, from: usize, address: CacheAddress) {
        self.caches[from].counts[requester as usize].writebacks += u64::from(COUNTED);
        let path = &self.paths[Requester::Store as usize].caches;
        let below = path.iter().filter(|&&index| self.levels[index] > self.levels[from]);
        for &index in below {
            let cache = &mut self.caches[index];
            if cache.may_be_dirty && cache.soil(address) {
                break;
            }
        }
    }

    /// Accesses all lines of a range of at least one byte inside a page, in ascending order. Returns the cycles that
    /// its requester waits beyond its fastest access of each line.
    #[inline]
    pub fn access_bytes(&mut self, requester: Requester, address: CacheAddress, bytes: u64) -> u64 {
        self.access_bytes_noting(requester, address, bytes, |_| {})
    }

    /// As [`Hierarchy::access_bytes`]; `note` is told where each line was found that changed more than counts.
    #[inline]
    pub fn access_bytes_noting(
        &mut self,
        requester: Requester,
        address: CacheAddress,
        bytes: u64,
        mut note: impl FnMut(DataSource),
    ) -> u64 {
        let last = address.plus(bytes.max(1) - 1);
        let is_one_line = address.logical >> self.line_shift == last.logical >> self.line_shift;
        if is_one_line && self.repeats(requester, address) {
            self.repeated(requester, 1);
            return 0;
        }
        let lines = (last.logical >> self.line_shift) - (address.logical >> self.line_shift);
        let mut stalled = 0;
        for line in 0..=lines {
            let served = self.access(requester, address.plus(line << self.line_shift));
            note(served);
            let beyond = self.latency(served).saturating_sub(self.paths[requester as usize].fastest);
            stalled = beyond.saturating_add(stalled);
        }
        stalled
    }

    /// The kernel copies bytes from one physical address to another, by its own virtual addresses. Returns the cycles
    /// that it waits; nothing is counted.
    pub fn copy(&mut self, from: u64, to: u64, bytes: u64) -> u64 {
        let mut stalled = 0;
        for offset in (0..bytes).step_by(1 << self.line_shift) {
            for (requester, start) in [(Requester::Load, from), (Requester::Store, to)] {
                let physical = start + offset;
                let served = self.find::<false>(requester, CacheAddress::of_kernel(physical));
                let beyond = self.latency(served).saturating_sub(self.paths[requester as usize].fastest);
                stalled = beyond.saturating_add(stalled);
            }
        }
        stalled
    }

    /// Whether the requester's nearest cache ends an access to this line and changes only counts.
    #[inline]
    fn repeats(&self, requester: Requester, address: CacheAddress) -> bool {
        self.nearest(requester).is_some_and(|nearest| {
            let cache = &self.caches[nearest];
            !cache.passes_on[requester as usize] && cache.repeats(address, requester == Requester::Store)
        })
    }

    /// log2 of the bytes of a line.
    pub fn line_shift(&self) -> u32 {
        self.line_shift
    }

    /// Whether another access to this line changes only counts, as long as the requester accesses no other line and
    /// no other requester uses its nearest cache.
    pub fn repeats_alone(&self, requester: Requester, address: CacheAddress) -> bool {
        let Some(nearest) = self.nearest(requester) else { return false };
        let users = self.paths.iter().filter(|path| path.caches.contains(&nearest)).count();
        users == 1 && self.repeats(requester, address)
    }

    #[inline]
    fn nearest(&self, requester: Requester) -> Option<usize> {
        self.paths[requester as usize].caches.first().copied()
    }

    /// Counts `times` repeated accesses that change nothing but counts.
    #[inline]
    pub fn repeated(&mut self, requester: Requester, times: u64) {
        if let Some(nearest) = self.nearest(requester) {
            let counts = &mut self.caches[nearest].counts[requester as usize];
            counts.lookups += times;
            counts.hits += times;
        }
    }

    /// Cycles of an access whose line was found in `served`.
    pub fn latency(&self, served: DataSource) -> u64 {
        match served {
            DataSource::Cache(index) => self.caches[index].latency,
            DataSource::Memory => self.memory_latency,
        }
    }

    /// The levels whose caches could have ended an access that was served farther away.
    pub fn levels_before(&self, requester: Requester, served: DataSource) -> impl Iterator<Item = u8> {
        let path = self.paths[requester as usize].caches.iter();
        let before = path.take_while(move |&&index| served != DataSource::Cache(index));
        before
            .filter(move |&&index| !self.caches[index].passes_on[requester as usize])
            .map(|&index| self.levels[index])
    }

    /// The counts of one requester for the cache with this index.
    pub fn counts(&self, index: usize, requester: Requester) -> CacheCounts {
        self.caches[index].counts[requester as usize]
    }
}
