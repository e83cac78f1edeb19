//! The cache hierarchy: which lines each cache holds, and at which level accesses hit.

use crate::{CacheSpec, Requester};
use pagewalk_setassoc::{RelevantHits, SetArray};

/// Counts of one requester's accesses to one cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Accesses that looked up the cache.
    pub lookups: u64,
    /// Accesses that hit.
    pub hits: u64,
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
    /// For each requester: the indices of the caches that serve it, nearest first.
    paths: [Vec<usize>; Requester::ALL.len()],
    line_shift: u32,
    memory_latency: u64,
}

#[derive(Clone, Debug)]
struct Cache {
    array: SetArray,
    /// By set: the line touched or filled last. Another hit of this line changes only counts.
    latest: Vec<u64>,
    /// Whether repeated hits of the same line change the state of the replacement policy.
    repeats_matter: bool,
    latency: u64,
    counts: [CacheCounts; Requester::ALL.len()],
    shared: bool,
}

/// Marks an empty slot: no line has this number.
const NONE: u64 = u64::MAX;

impl Cache {
    fn new(spec: &CacheSpec) -> Cache {
        let array = spec.array();
        Cache {
            latest: vec![NONE; array.geometry().sets()],
            repeats_matter: spec.replacement.relevant_hits() == RelevantHits::Each,
            array,
            latency: spec.latency,
            counts: Default::default(),
            shared: spec.shared,
        }
    }

    /// Looks a line up.
    #[inline]
    fn touch(&mut self, line: u64) -> bool {
        if self.is_latest(line) {
            return true;
        }
        let hit = self.array.touch(line, line);
        if hit {
            self.note(line);
        }
        hit
    }

    #[inline]
    fn is_latest(&self, line: u64) -> bool {
        self.latest[self.set(line)] == line
    }

    fn fill(&mut self, line: u64) {
        self.array.insert(line, line);
        self.note(line);
    }

    fn note(&mut self, line: u64) {
        if !self.repeats_matter {
            let set = self.set(line);
            self.latest[set] = line;
        }
    }

    /// The set of a line. The number of sets is a power of two.
    fn set(&self, line: u64) -> usize {
        line as usize & (self.latest.len() - 1)
    }
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
        Hierarchy {
            caches: caches.iter().map(Cache::new).collect(),
            paths: Requester::ALL.map(path),
            line_shift: caches.first().map_or(0, |cache| cache.line_shift),
            memory_latency,
        }
    }

    /// Swaps the contents of the caches that all cores share with those of another core of the same machine.
    pub fn swap_shared(&mut self, other: &mut Hierarchy) {
        let pairs = self.caches.iter_mut().zip(&mut other.caches);
        pairs.filter(|(own, _)| own.shared).for_each(|(own, other)| std::mem::swap(own, other));
    }

    /// Accesses the line of a physical address; returns where the line was found.
    pub fn access(&mut self, requester: Requester, address: u64) -> DataSource {
        let line = address >> self.line_shift;
        let path = &self.paths[requester as usize];
        for (depth, &index) in path.iter().enumerate() {
            let cache = &mut self.caches[index];
            let hit = cache.touch(line);
            let counts = &mut cache.counts[requester as usize];
            counts.lookups += 1;
            if hit {
                counts.hits += 1;
                self.fill(requester, depth, line);
                return DataSource::Cache(index);
            }
        }
        self.fill(requester, path.len(), line);
        DataSource::Memory
    }

    /// Fills the caches before `depth` on the requester's path.
    fn fill(&mut self, requester: Requester, depth: usize, line: u64) {
        for &index in &self.paths[requester as usize][..depth] {
            self.caches[index].fill(line);
        }
    }

    /// Accesses all lines of a range of at least one byte, in ascending order.
    #[inline]
    pub fn access_bytes(&mut self, requester: Requester, address: u64, bytes: u64) {
        let (first, last) = (address >> self.line_shift, (address + (bytes.max(1) - 1)) >> self.line_shift);
        if first == last
            && self.nearest(requester).is_some_and(|nearest| self.caches[nearest].is_latest(first))
        {
            return self.repeated(requester, 1);
        }
        for line in first..=last {
            self.access(requester, line << self.line_shift);
        }
    }

    /// log2 of the bytes of a line.
    pub fn line_shift(&self) -> u32 {
        self.line_shift
    }

    /// Whether another access to this line changes only counts, as long as the requester accesses no other line and
    /// no other requester uses its nearest cache.
    pub fn repeats_alone(&self, requester: Requester, address: u64) -> bool {
        let line = address >> self.line_shift;
        let Some(nearest) = self.nearest(requester) else { return false };
        let users = self.paths.iter().filter(|path| path.contains(&nearest)).count();
        users == 1 && self.caches[nearest].is_latest(line)
    }

    #[inline]
    fn nearest(&self, requester: Requester) -> Option<usize> {
        self.paths[requester as usize].first().copied()
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

    /// The counts of one requester for the cache with this index.
    pub fn counts(&self, index: usize, requester: Requester) -> CacheCounts {
        self.caches[index].counts[requester as usize]
    }
}
