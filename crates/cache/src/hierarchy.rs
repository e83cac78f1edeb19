//! The cache hierarchy: which lines each cache holds, and at which level accesses hit.

use crate::{AddressUsed, CacheFills, CacheSpec, Requester};
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

/// An address of a byte, as caches see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheAddress {
    /// In physical memory.
    pub physical: u64,
    /// In its address space; spaces do not overlap.
    pub logical: u64,
}

impl CacheAddress {
    /// An address that is the same in physical memory and in its address space.
    pub fn same(address: u64) -> CacheAddress {
        CacheAddress { physical: address, logical: address }
    }

    fn line(self, used: AddressUsed, shift: u32) -> u64 {
        match used {
            AddressUsed::Physical => self.physical >> shift,
            AddressUsed::Virtual => self.logical >> shift,
        }
    }

    fn plus(self, bytes: u64) -> CacheAddress {
        CacheAddress { physical: self.physical + bytes, logical: self.logical + bytes }
    }
}

/// A requester's way through the caches.
#[derive(Clone, Debug, Default)]
struct Path {
    /// The indices of the caches that serve it, nearest first.
    caches: Vec<usize>,
    /// Cycles of its fastest access, which stalls nobody: of the nearest cache that can end it.
    fastest: u64,
}

/// The caches of one machine.
#[derive(Clone, Debug)]
pub struct Hierarchy {
    caches: Vec<Cache>,
    /// By requester.
    paths: [Path; Requester::ALL.len()],
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
    address: AddressUsed,
    /// By requester: whether it looks accesses up without ever ending one.
    passes_on: [bool; Requester::ALL.len()],
    holds_victims: bool,
}

/// Addresses of the kernel's view of physical memory, beyond those of all address spaces.
const KERNELS: u64 = 1 << 63;

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
            address: spec.address,
            passes_on: Requester::ALL.map(|requester| spec.passes_on(requester)),
            holds_victims: spec.fills == CacheFills::Victims,
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

    /// Puts a missing line in; returns the one that it evicts.
    fn fill(&mut self, line: u64) -> Option<u64> {
        let evicted = self.array.insert(line, line);
        self.note(line);
        evicted
    }

    /// Gives a line up.
    fn give(&mut self, line: u64) {
        self.array.remove(line, line);
        let set = self.set(line);
        self.latest[set] = NONE;
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
            let mut ends = path.iter().filter(|&&index| !caches[index].passes_on(requester));
            let fastest = ends.next().map_or(memory_latency, |&index| caches[index].latency);
            Path { caches: path, fastest }
        };
        Hierarchy {
            caches: caches.iter().map(Cache::new).collect(),
            paths: Requester::ALL.map(path),
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
        let path = &self.paths[requester as usize].caches;
        for (depth, &index) in path.iter().enumerate() {
            let cache = &mut self.caches[index];
            let hit = cache.touch(address.line(cache.address, self.line_shift));
            if COUNTED {
                let counts = &mut cache.counts[requester as usize];
                counts.lookups += 1;
                counts.hits += u64::from(hit);
                if !hit && self.watched == Some(index) {
                    let address = address.physical >> self.line_shift << self.line_shift;
                    self.missed.push(LineMiss { requester, address });
                }
            }
            if hit && !cache.passes_on[requester as usize] {
                if cache.holds_victims {
                    cache.give(address.line(cache.address, self.line_shift));
                }
                self.fill(requester, depth, address);
                return DataSource::Cache(index);
            }
        }
        self.fill(requester, path.len(), address);
        DataSource::Memory
    }

    /// Fills the caches before `depth` on the requester's path, and victim caches with what those evict.
    fn fill(&mut self, requester: Requester, depth: usize, address: CacheAddress) {
        let path = &self.paths[requester as usize].caches;
        for (at, &index) in path[..depth].iter().enumerate() {
            let cache = &mut self.caches[index];
            if cache.passes_on[requester as usize] || cache.holds_victims {
                continue;
            }
            let Some(evicted) = cache.fill(address.line(cache.address, self.line_shift)) else { continue };
            if let Some(&below) = path.get(at + 1).filter(|&&below| self.caches[below].holds_victims) {
                self.caches[below].fill(evicted);
            }
        }
    }

    /// Accesses all lines of a range of at least one byte inside a page, in ascending order. Returns the cycles that
    /// its requester waits beyond its fastest access of each line.
    #[inline]
    pub fn access_bytes(&mut self, requester: Requester, address: CacheAddress, bytes: u64) -> u64 {
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
                let address = CacheAddress { physical, logical: physical | KERNELS };
                let served = self.find::<false>(requester, address);
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
            !cache.passes_on[requester as usize]
                && cache.is_latest(address.line(cache.address, self.line_shift))
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

    /// The counts of one requester for the cache with this index.
    pub fn counts(&self, index: usize, requester: Requester) -> CacheCounts {
        self.caches[index].counts[requester as usize]
    }
}
