//! The cache hierarchy: which lines each cache holds, and at which level accesses hit.

mod first_level;
mod in_order;
mod parts;

pub use first_level::{Hits, PassedLine, shares_first_level};
pub use parts::{HierarchyCounts, PartLines, Parts};

use crate::access_log::{AccessLog, LineAccess};
use crate::cache::{Cache, Evicted, Look};
use crate::path::{Path, above, victims_of};
use crate::{CacheAddress, CacheSpec, Requester};
use first_level::PassedLog;

/// Counts of one requester's accesses to one cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Accesses that looked up the cache.
    pub lookups: u64,
    /// Accesses that hit.
    pub hits: u64,
    /// Of the hits, those at the cache's slow latency.
    pub slow_hits: u64,
    /// Dirty lines that left the cache because of these accesses.
    pub writebacks: u64,
    /// Cycles that stores waited for a place in the cache's write buffer.
    pub write_stall_cycles: u64,
}

impl CacheCounts {
    /// Adds those of another core.
    pub fn add(&mut self, other: CacheCounts) {
        self.lookups += other.lookups;
        self.hits += other.hits;
        self.slow_hits += other.slow_hits;
        self.writebacks += other.writebacks;
        self.write_stall_cycles = self.write_stall_cycles.saturating_add(other.write_stall_cycles);
    }
}

/// Where an access found its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataSource {
    /// In the cache with this index.
    Cache(usize),
    /// In the cache with this index, by a slow hit.
    SlowCache(usize),
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
    /// By cache, if it is inclusive: the caches above that lose what it evicts.
    above: Vec<Vec<usize>>,
    /// By cache, if it is inclusive and shared: its fills when this core last gave it away.
    fills_seen: Vec<u64>,
    /// By cache.
    levels: Vec<u8>,
    /// By level: the caches below it that hold dirty lines, nearest first.
    takers: Vec<Vec<usize>>,
    /// log2 of the bytes of the shortest lines.
    least_line_shift: u32,
    memory_latency: u64,
    /// The time in cycles; only write buffers look at it.
    now: u64,
    log: AccessLog,
    passed: PassedLog,
}

impl DataSource {
    /// The index of the cache.
    fn cache(self) -> Option<usize> {
        match self {
            DataSource::Cache(index) | DataSource::SlowCache(index) => Some(index),
            DataSource::Memory => None,
        }
    }
}

/// By level, the caches of a path below it that hold dirty lines.
fn takers(caches: &[CacheSpec], path: &[usize]) -> Vec<Vec<usize>> {
    let lowest = caches.iter().map(|cache| cache.level).max().unwrap_or(0);
    let below = |level| {
        let takes = |&&index: &&usize| caches[index].level > level && caches[index].may_be_dirty();
        path.iter().filter(takes).copied().collect()
    };
    (0..=lowest.max(1)).map(below).collect()
}

impl Hierarchy {
    /// Empty caches. `memory_latency`: cycles of an access that no cache serves.
    ///
    /// # Panics
    /// If [`crate::check`] refuses the caches.
    pub fn new(caches: &[CacheSpec], memory_latency: u64) -> Hierarchy {
        let paths = Requester::ALL.map(|requester| Path::new(caches, requester, memory_latency));
        Hierarchy {
            caches: caches.iter().map(Cache::new).collect(),
            victims: (0..caches.len()).map(|index| victims_of(caches, index)).collect(),
            above: (0..caches.len()).map(|index| above(caches, index)).collect(),
            fills_seen: vec![0; caches.len()],
            levels: caches.iter().map(|cache| cache.level).collect(),
            takers: takers(caches, &paths[Requester::Store as usize].caches),
            least_line_shift: caches.iter().map(|cache| cache.line_shift).min().unwrap_or(0),
            memory_latency,
            paths,
            now: 0,
            log: AccessLog::default(),
            passed: PassedLog::default(),
        }
    }

    /// Logs the misses of a cache from now on; `hits`: its hits too, before any access.
    pub fn watch(&mut self, index: usize, hits: bool) {
        (self.log.watched, self.log.hits) = (Some(index), hits);
        for path in &mut self.paths {
            path.repeats_in = path.repeats_in.filter(|&nearest| !hits || nearest != index);
            path.steps.clear();
        }
    }

    /// Takes what was logged since the last call.
    pub fn logged(&mut self) -> Vec<LineAccess> {
        std::mem::take(&mut self.log.accesses)
    }

    /// Whether something was logged since the last call of [`Hierarchy::logged`].
    #[inline]
    pub fn has_logged(&self) -> bool {
        !self.log.accesses.is_empty()
    }

    /// Whether some cache has a write buffer, which needs [`Hierarchy::set_time`].
    pub fn has_write_buffers(&self) -> bool {
        self.caches.iter().any(|cache| cache.write_buffer.is_some())
    }

    /// Sets the time in cycles, which must not fall. Waits for write buffers pass time until it is set again.
    pub fn set_time(&mut self, cycles: u64) {
        self.now = cycles;
    }

    /// Hands the contents of the caches that all cores share to another core of the same machine, and takes its own.
    pub fn swap_shared(&mut self, other: &mut Hierarchy) {
        for index in 0..self.caches.len() {
            if self.caches[index].shared {
                std::mem::swap(&mut self.caches[index], &mut other.caches[index]);
                self.fills_seen[index] = other.caches[index].fills();
            }
        }
        other.drop_uncovered();
    }

    /// Drops what shared inclusive caches evicted from this core's own caches while other cores ran.
    ///
    /// A line is still covered if the shared cache has held it ever since: it was filled before this core stopped. A
    /// core's own caches do not change while others run, so dropping lines late changes no lookup and no latency. A
    /// dirty line's write-back is counted here alone, and soils what lies below late.
    fn drop_uncovered(&mut self) {
        for index in 0..self.caches.len() {
            if self.caches[index].shared {
                for at in 0..self.above[index].len() {
                    self.drop_uncovered_from(self.above[index][at], index);
                }
            }
        }
    }

    fn drop_uncovered_from(&mut self, own: usize, index: usize) {
        let (cache, shared) = (&self.caches[own], &self.caches[index]);
        if cache.shared {
            return;
        }
        let gone = cache.addresses().filter(|&address| !shared.has_held(address, self.fills_seen[index]));
        for address in gone.collect::<Vec<_>>() {
            if self.caches[own].give(address) == Some(true) {
                self.caches[own].counts[Requester::Store as usize].writebacks += 1;
                self.pass_down(self.levels[index], address);
            }
        }
    }

    /// Accesses the line of an address; returns where the line was found. Waits for write buffers are only counted.
    pub fn access(&mut self, requester: Requester, address: CacheAddress) -> DataSource {
        if self.repeats(requester, address, 1) {
            return DataSource::Cache(self.paths[requester as usize].nearest);
        }
        self.find::<true>(requester, address)
    }

    /// `COUNTED`: counts and logs the access.
    #[inline]
    fn find<const COUNTED: bool>(&mut self, requester: Requester, address: CacheAddress) -> DataSource {
        if !self.paths[requester as usize].steps.is_empty() {
            return self.find_in_order::<COUNTED>(requester, address);
        }
        self.find_by_rules::<COUNTED>(requester, address)
    }

    /// [`Hierarchy::find`] for caches of any rules.
    #[inline(never)]
    fn find_by_rules<const COUNTED: bool>(
        &mut self,
        requester: Requester,
        address: CacheAddress,
    ) -> DataSource {
        let depths = self.paths[requester as usize].caches.len();
        let served = (0..depths).find_map(|depth| self.look_up::<COUNTED>(requester, address, depth));
        if served.is_none() {
            self.fill::<COUNTED>(requester, depths, address, false);
        }
        served.unwrap_or(DataSource::Memory)
    }

    /// Looks a line up in the cache at this depth; `None` if the access goes on.
    #[inline(always)]
    fn look_up<const COUNTED: bool>(
        &mut self,
        requester: Requester,
        address: CacheAddress,
        depth: usize,
    ) -> Option<DataSource> {
        let path = &self.paths[requester as usize];
        let index = path.caches[depth];
        let cache = &mut self.caches[index];
        let passes_on = cache.passes_on[requester as usize];
        let stores = requester == Requester::Store && path.soils;
        let soils = stores && !passes_on && depth <= path.nearest_filled;
        let look = cache.touch(address, soils);
        let hit = look != Look::Miss;
        if COUNTED {
            cache.count(requester, look);
            if self.log.takes(index, hit) {
                let address = address.physical >> cache.line_shift << cache.line_shift;
                self.log.accesses.push(LineAccess { requester, address, hit });
            }
            if !hit && self.levels[index] == 1 {
                self.passed.note(address, Some(requester));
            }
            if passes_on && let Some(buffer) = &mut cache.write_buffer {
                let waited = buffer.store(self.now);
                self.now = self.now.saturating_add(waited);
                let counts = &mut cache.counts[requester as usize];
                counts.write_stall_cycles = counts.write_stall_cycles.saturating_add(waited);
            }
        }
        if !hit || passes_on {
            return None;
        }
        if depth > path.nearest_filled {
            let dirty = path.moves_up[depth] && cache.give(address) == Some(true);
            self.fill::<COUNTED>(requester, depth, address, dirty);
        }
        let is_slow = look == Look::SlowHit;
        Some(if is_slow { DataSource::SlowCache(index) } else { DataSource::Cache(index) })
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
        let Path { nearest_filled, soils, .. } = self.paths[requester as usize];
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
            let stored = requester == Requester::Store && soils && at == nearest_filled;
            let evicted = self.caches[index].fill(address, std::mem::take(&mut dirty) | stored);
            if let Some(evicted) = evicted {
                self.evict::<COUNTED>(requester, index, evicted);
            }
        }
    }

    /// A line leaves a cache: for the victim cache below it, and if dirty for what lies below.
    fn evict<const COUNTED: bool>(&mut self, requester: Requester, mut from: usize, mut evicted: Evicted) {
        if !self.above[from].is_empty() && self.drop_above::<COUNTED>(requester, from, evicted.address) {
            // It may be dirty, as `check` demands of a cache below those that may be.
            evicted.dirty = true;
        }
        while let Some(victims) = self.victims[from] {
            self.caches[from].counts[requester as usize].writebacks += u64::from(COUNTED && evicted.dirty);
            let Some(next) = self.caches[victims].receive(evicted) else { return };
            (from, evicted) = (victims, next);
        }
        if evicted.dirty {
            self.write_back::<COUNTED>(requester, from, evicted.address);
        }
    }

    /// Drops a line from the caches above an inclusive one that evicts it; returns whether it was dirty in some.
    fn drop_above<const COUNTED: bool>(
        &mut self,
        requester: Requester,
        from: usize,
        address: CacheAddress,
    ) -> bool {
        let bytes = 1u64 << self.caches[from].line_shift;
        let mut dirty = false;
        for &index in &self.above[from] {
            let cache = &mut self.caches[index];
            for offset in (0..bytes).step_by(1 << cache.line_shift) {
                if cache.give(address.plus(offset)) == Some(true) {
                    cache.counts[requester as usize].writebacks += u64::from(COUNTED);
                    dirty = true;
                }
            }
        }
        dirty
    }

    /// A cache writes a line back.
    fn write_back<const COUNTED: bool>(&mut self, requester: Requester, from: usize, address: CacheAddress) {
        self.caches[from].counts[requester as usize].writebacks += u64::from(COUNTED);
        if COUNTED && self.levels[from] == 1 {
            self.passed.note(address, None);
        }
        self.pass_down(self.levels[from], address);
    }

    /// The next cache below a level that has a written-back line holds it dirty from now on, or memory takes it.
    fn pass_down(&mut self, level: u8, address: CacheAddress) {
        for &index in &self.takers[usize::from(level)] {
            if self.caches[index].soil(address) {
                break;
            }
        }
    }

    /// Whether an access to these bytes changes only counts and times of use; then it is done.
    #[inline(always)]
    pub fn repeats(&mut self, requester: Requester, address: CacheAddress, bytes: u64) -> bool {
        let path = &self.paths[requester as usize];
        let Some(nearest) = path.repeats_in else { return false };
        let cache = &mut self.caches[nearest];
        let lines = cache.repeats(address, bytes, path.need);
        cache.recent.repeats[requester as usize] += lines;
        lines > 0
    }

    /// Accesses all lines of the requester's nearest cache that a range of at least one byte inside a page touches, in
    /// ascending order. Returns the cycles that its requester waits beyond its fastest access of each line. `note` is
    /// told where each line was found that does not repeat. [`Hierarchy::repeats`] comes first, as it is quick.
    #[inline]
    pub fn access_lines(
        &mut self,
        requester: Requester,
        address: CacheAddress,
        bytes: u64,
        mut note: impl FnMut(DataSource),
    ) -> u64 {
        let Path { line_shift, fastest, ref steps, .. } = self.paths[requester as usize];
        let lines = ((address.logical + (bytes.max(1) - 1)) >> line_shift) - (address.logical >> line_shift);
        if lines == 0 && !steps.is_empty() {
            let served = self.find::<true>(requester, address);
            note(served);
            return self.latency(served).saturating_sub(fastest);
        }
        let before = self.now;
        for line in 0..=lines {
            let address = address.plus(line << line_shift);
            if !self.repeats(requester, address, 1) {
                let served = self.find::<true>(requester, address);
                note(served);
                let beyond = self.latency(served).saturating_sub(fastest);
                self.now = self.now.saturating_add(beyond);
            }
        }
        self.now - before
    }

    /// The kernel copies bytes from one physical address to another, by its own virtual addresses. Returns the cycles
    /// that it waits; nothing is counted, and write buffers take no part.
    pub fn copy(&mut self, from: u64, to: u64, bytes: u64) -> u64 {
        let mut stalled = 0_u64;
        for offset in (0..bytes).step_by(1 << self.least_line_shift) {
            let loaded = self.access_uncounted(Requester::Load, from + offset);
            let stored = self.access_uncounted(Requester::Store, to + offset);
            stalled = stalled.saturating_add(loaded).saturating_add(stored);
        }
        stalled
    }

    /// The kernel fetches or loads bytes from a physical address on, as [`Hierarchy::copy`] does.
    pub fn read(&mut self, requester: Requester, start: u64, bytes: u64) -> u64 {
        let lines = (0..bytes).step_by(1 << self.least_line_shift);
        lines.map(|offset| self.access_uncounted(requester, start + offset)).fold(0, u64::saturating_add)
    }

    fn access_uncounted(&mut self, requester: Requester, physical: u64) -> u64 {
        let served = self.find::<false>(requester, CacheAddress::of_kernel(physical));
        self.latency(served).saturating_sub(self.paths[requester as usize].fastest)
    }

    /// log2 of the bytes of a line of the requester's nearest cache.
    pub fn line_shift(&self, requester: Requester) -> u32 {
        self.paths[requester as usize].line_shift
    }

    /// Whether an access to the same line as the requester's last one always changes only counts, whatever others
    /// access in between.
    pub fn repeats_wait(&self, requester: Requester) -> bool {
        let path = &self.paths[requester as usize];
        let fills = path.owns_nearest && path.nearest_filled == 0;
        fills && path.repeats_in.is_some_and(|nearest| self.caches[nearest].has_repeats())
    }

    /// Counts `times` repeated accesses that change nothing but counts.
    #[inline]
    pub fn repeated(&mut self, requester: Requester, times: u64) {
        let nearest = self.paths[requester as usize].nearest;
        if let Some(cache) = self.caches.get_mut(nearest) {
            cache.recent.repeats[requester as usize] += times;
        }
    }

    /// Cycles of an access whose line was found in `served`.
    pub fn latency(&self, served: DataSource) -> u64 {
        match served {
            DataSource::Cache(index) => self.caches[index].latency,
            DataSource::SlowCache(index) => self.caches[index].slow_latency,
            DataSource::Memory => self.memory_latency,
        }
    }

    /// The levels whose caches could have ended an access that was served farther away.
    pub fn levels_before(&self, requester: Requester, served: DataSource) -> impl Iterator<Item = u8> + '_ {
        let path = self.paths[requester as usize].caches.iter();
        let before = path.take_while(move |&&index| served.cache() != Some(index));
        before
            .filter(move |&&index| !self.caches[index].passes_on[requester as usize])
            .map(|&index| self.levels[index])
    }

    /// The counts of one requester for the cache with this index.
    pub fn counts(&self, index: usize, requester: Requester) -> CacheCounts {
        let cache = &self.caches[index];
        let mut counts = cache.counts[requester as usize];
        let repeats = cache.recent.repeats[requester as usize];
        counts.add(CacheCounts { lookups: repeats, hits: repeats, ..CacheCounts::default() });
        counts
    }
}
