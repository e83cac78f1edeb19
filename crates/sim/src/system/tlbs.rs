//! The translation hardware of one core: first-level arrays, the levels below, the walker, caches of memory.

use super::lookups::{ArrayPlace, BaseArray};
use super::moves::{TlbMove, TlbMoves};
use super::page::Page;
use crate::caches::{MemoryCaches, MemoryCounts, WalkCost};
use crate::classes::{CLASSES, FETCH, KINDS, LOAD, STORE};
use crate::code_lines::LineGrain;
use crate::counts::{CacheTotals, ClassCounts, MissCounts, cache_totals};
use crate::software_keys::{software_key, software_page};
use crate::watched_tlbs::WatchedTlbs;
use pagewalk_cache::{CacheAddress, Hierarchy, Requester};
use pagewalk_mm::Superpage;
use pagewalk_setassoc::{Entry, RelevantHits, SetIndex, TlbArray};
use pagewalk_translate::{
    Asid, DataSide, Fills, KindSet, LowerEntry, LowerLevels, MachineSpec, Prefetcher, SoftwareMmu,
    TranslationSource, Walker,
};
use pagewalk_units::{Kind, PageSize, VirtAddr};

/// One first-level array.
#[derive(Clone)]
pub(super) struct FirstLevelArray {
    pub(super) index: usize,
    serves: KindSet,
    sizes: Vec<PageSize>,
    pub(super) entries: Entries,
    /// Whether repeating the last hit changes later evictions.
    repeats_matter: bool,
    hits: u64,
}

#[derive(Clone)]
pub(super) enum Entries {
    Array(TlbArray),
    /// Refills by handlers that may miss themselves.
    Software(Box<SoftwareMmu>),
}

impl FirstLevelArray {
    pub(super) fn takes(&self, kind: Kind, size: PageSize) -> bool {
        self.serves.has(kind) && self.sizes.contains(&size)
    }

    fn look_up(&mut self, asid: Asid, page: Page) -> bool {
        let hit = self.sizes.contains(&page.size)
            && match &mut self.entries {
                Entries::Array(array) => array.touch(page.entry(asid)),
                Entries::Software(mmu) => mmu.contains(software_key(asid, page.number, page.size)),
            };
        self.hits += u64::from(hit);
        hit
    }

    pub(super) fn holds(&self, asid: Asid, page: Page) -> bool {
        self.sizes.contains(&page.size)
            && match &self.entries {
                Entries::Array(array) => array.contains(page.entry(asid)),
                Entries::Software(mmu) => mmu.contains(software_key(asid, page.number, page.size)),
            }
    }
}

/// The hardware of one core.
#[derive(Clone)]
pub(super) struct Tlbs {
    pub machine: MachineSpec,
    /// Replaces arrays and walker if the machine is a data side.
    pub(super) side: Option<Box<DataSide>>,
    pub(super) first: Vec<FirstLevelArray>,
    pub(super) lower: LowerLevels,
    walker: Walker,
    pub(super) memory: Option<MemoryCaches>,
    prefetchers: Vec<Prefetcher>,
    gives_victims: bool,
    /// What a policy watches; none if none does.
    pub(super) watched: Option<WatchedTlbs>,
    pub counts: MissCounts,
    /// Lookups by class.
    pub lookups: [u64; CLASSES],
}

impl Tlbs {
    /// Empty hardware; `watched`: what a policy watches.
    pub fn new(machine: &MachineSpec, watched: Option<WatchedTlbs>) -> Tlbs {
        let first = |(index, tlb): (usize, &pagewalk_translate::TlbSpec)| FirstLevelArray {
            index,
            serves: tlb.serves,
            sizes: tlb.page_sizes.clone(),
            entries: match machine.software() {
                Some(software) => Entries::Software(Box::new(SoftwareMmu::new(software))),
                None => Entries::Array(tlb.array()),
            },
            repeats_matter: machine.software().is_none() && tlb.relevant_hits() == RelevantHits::Each,
            hits: 0,
        };
        let mut lower = LowerLevels::new(machine);
        let mut side = DataSide::new(machine).map(Box::new);
        if let Some(watched) = &watched {
            watched.all().iter().for_each(|tlb| lower.watch(&tlb.arrays));
            side.iter_mut().for_each(|side| side.track_moves());
        }
        Tlbs {
            first: machine.level(1).filter(|_| side.is_none()).map(first).collect(),
            side,
            lower,
            walker: Walker::new(&machine.walker),
            memory: MemoryCaches::of(machine),
            prefetchers: Prefetcher::of(machine),
            gives_victims: machine.tlbs.iter().any(|tlb| tlb.fills == Fills::Victims),
            watched,
            machine: machine.clone(),
            counts: MissCounts::default(),
            lookups: [0; CLASSES],
        }
    }

    /// For each class, the first class that shares its first-level arrays.
    pub fn groups(&self) -> [usize; CLASSES] {
        let mut groups = [FETCH, LOAD, STORE];
        for first in &self.first {
            let served: Vec<usize> = (0..CLASSES).filter(|&class| first.serves.has(KINDS[class])).collect();
            let merged: Vec<usize> = served.iter().map(|&class| groups[class]).collect();
            if let Some(&least) = merged.iter().min() {
                groups.iter_mut().filter(|group| merged.contains(group)).for_each(|group| *group = least);
            }
        }
        groups
    }

    /// The only array for pages of a size and class, if repeated hits there change nothing.
    pub fn place(&self, class: usize, size: PageSize) -> Option<ArrayPlace> {
        let only = |class: usize| {
            let mut taking = (0..self.first.len()).filter(|&at| self.first[at].takes(KINDS[class], size));
            taking.next().filter(|&at| taking.next().is_none() && !self.first[at].repeats_matter)
        };
        let array = only(class)?;
        let classes = (0..CLASSES).filter(|&other| only(other) == Some(array));
        Some(ArrayPlace { array: array as u8, classes: classes.fold(0, |set, class| set | 1 << class) })
    }

    /// The only array for base pages of each class.
    pub fn homes(&self) -> [Option<BaseArray>; CLASSES] {
        let base = self.machine.paging.base();
        [FETCH, LOAD, STORE].map(|class| {
            let array = self.place(class, base)?.array;
            let first = &self.first[usize::from(array)];
            let by_low_bits = match &first.entries {
                Entries::Array(entries) => entries.as_sets().filter(|sets| sets.index() == SetIndex::Modulo),
                // A refill may replace any entry.
                Entries::Software(_) => None,
            };
            let sets = by_low_bits.filter(|_| first.sizes == [base]).map_or(1, |sets| sets.geometry().sets());
            Some(BaseArray { array, sets })
        })
    }

    /// The entry of a page in an array of the first level.
    pub fn entry(&self, array: u8, asid: Asid, page: Page) -> Entry {
        match &self.first[usize::from(array)].entries {
            Entries::Array(_) => page.entry(asid),
            Entries::Software(_) => {
                Entry { key: software_key(asid, page.number, page.size), ..page.entry(asid) }
            }
        }
    }

    /// Looks up an entry that only this array can hold; a miss is not counted.
    #[inline(always)]
    pub fn hits(&mut self, class: usize, array: u8, entry: Entry) -> bool {
        let first = &mut self.first[usize::from(array)];
        let hit = match &mut first.entries {
            Entries::Array(array) => array.touch(entry),
            Entries::Software(mmu) => mmu.contains(entry.key),
        };
        first.hits += u64::from(hit);
        self.lookups[class] += u64::from(hit);
        hit
    }

    /// Counts lookups that repeat a hit in this array.
    #[inline]
    pub fn repeat(&mut self, class: usize, array: u8, times: u64) {
        self.lookups[class] += times;
        self.first[usize::from(array)].hits += times;
    }

    /// Looks a page up in the first level.
    pub fn look_up(&mut self, class: usize, kind: Kind, asid: Asid, page: Page) -> bool {
        self.lookups[class] += 1;
        let serving = self.first.iter_mut().filter(|first| first.serves.has(kind));
        serving.fold(false, |hit, first| first.look_up(asid, page) | hit)
    }

    /// Whether the first level holds a page for a kind of references.
    pub fn holds(&self, kind: Kind, asid: Asid, page: Page) -> bool {
        if let Some(side) = &self.side {
            let first = self.block(page.number, page.size).first;
            return kind != Kind::Fetch && side.holds_in_first(asid.page(first));
        }
        self.first.iter().any(|first| first.serves.has(kind) && first.holds(asid, page))
    }

    /// The lower level or prefetch buffer that serves a miss; [`TranslationSource::Walk`] needs a walk.
    pub fn served_below(
        &mut self,
        class: usize,
        kind: Kind,
        asid: Asid,
        page: Page,
        address: VirtAddr,
    ) -> (TranslationSource, bool) {
        self.counts.first_level[class][0] += 1;
        let served = self.lower.look_up(kind, asid, address, page.size);
        let prefetched = served == TranslationSource::Walk && {
            let mut prefetchers = self.prefetchers.iter_mut();
            prefetchers
                .find(|prefetcher| prefetcher.takes(kind, page.size))
                .is_some_and(|prefetcher| prefetcher.claim(asid, page.number, page.size))
        };
        self.counts.lower_hits += u64::from(served != TranslationSource::Walk || prefetched);
        (served, prefetched)
    }

    /// Walks to a page's leaf.
    pub fn walk(&mut self, class: usize, address: VirtAddr, leaf: PageSize) -> WalkCost {
        let cost = self.read_tables(address, leaf);
        self.counts.charge(class, cost);
        cost
    }

    fn read_tables(&mut self, address: VirtAddr, leaf: PageSize) -> WalkCost {
        match &mut self.memory {
            Some(memory) => memory.walk(&mut self.walker, address, leaf),
            None => WalkCost::flat(self.walker.walk(address, leaf), self.machine.cost.walk_reference),
        }
    }

    /// Fills the arrays above the level that served a miss; returns the moves of watched TLBs.
    pub fn fill(&mut self, kind: Kind, asid: Asid, page: Page, served: TranslationSource) -> TlbMoves {
        let before = self.held_before(kind, asid, page, served);
        let mut gone = Vec::new();
        if let Some(at) = self.first.iter().rposition(|first| first.takes(kind, page.size))
            && let Entries::Array(array) = &mut self.first[at].entries
            && let Some(victim) = array.fill(page.entry(asid))
        {
            let (of, number, size) = Asid::page_of(victim);
            if self.gives_victims {
                self.lower.receive(self.first[at].index, of, number, size);
            }
            let array = self.first[at].index;
            let entry = LowerEntry { array, asid: of, number, size, pages_shift: 0 };
            gone.extend(self.watches(array).then_some(entry));
        }
        self.lower.fill(kind, asid, page.address(), page.size, served);
        if self.watched.is_none() {
            return TlbMoves::default();
        }
        gone.extend(self.lower.take_evicted());
        self.moves_since(asid, page, &before, &gone)
    }

    pub(super) fn block(&self, number: u64, size: PageSize) -> Superpage {
        let order = (size.shift() - self.machine.paging.base().shift()) as u8;
        Superpage { first: number << order, order }
    }

    /// Prefetches the next page's translation after a walk or a hit in a prefetch buffer, if due.
    pub fn prefetch_next(&mut self, kind: Kind, page: Page, next: impl Fn(u64) -> Option<(Asid, Page)>) {
        let Some(at) = self.prefetchers.iter().position(|prefetcher| prefetcher.takes(kind, page.size))
        else {
            return;
        };
        let vpn = (page.number + 1) << (page.size.shift() - self.machine.paging.base().shift());
        let Some((asid, next)) = next(vpn) else { return };
        let array = self.prefetchers[at].array;
        let held = match self.first.iter().find(|first| first.index == array) {
            Some(first) => first.holds(asid, next),
            None => self.lower.holds(array, asid, next.number, next.size),
        };
        if self.prefetchers[at].wants(asid, next.number, next.size) && !held {
            let read = self.read_tables(next.address(), next.leaf).references;
            self.prefetchers[at].put(asid, next.number, next.size, read);
        }
    }

    /// Sends a reference of the program, inside a page, through the caches of memory.
    #[inline]
    pub fn access(&mut self, kind: Kind, address: CacheAddress, bytes: u64) {
        if let Some(memory) = &mut self.memory {
            memory.access(kind, address, bytes);
        }
    }

    /// Logs misses of a cache of memory, and maybe hits: see [`Hierarchy::watch`].
    pub fn watch_cache(&mut self, watched: Option<(usize, bool)>) {
        if let (Some(memory), Some((index, hits))) = (&mut self.memory, watched) {
            memory.hierarchy.watch(index, hits);
        }
    }

    /// The caches of memory.
    pub fn hierarchy(&mut self) -> Option<&mut Hierarchy> {
        self.memory.as_mut().map(|memory| &mut memory.hierarchy)
    }

    /// Which fetches caches of memory see together, if there are some.
    pub fn line_grain(&self) -> Option<LineGrain> {
        self.memory.as_ref().map(MemoryCaches::line_grain)
    }

    /// Counts fetches from the line of the last one.
    pub fn fetched(&mut self, times: u32) {
        if let Some(memory) = &mut self.memory {
            memory.hierarchy.repeated(Requester::Fetch, times.into());
        }
    }

    /// The core executed an instruction, whose references follow.
    #[inline]
    pub fn executed(&mut self) {
        self.memory.iter_mut().for_each(MemoryCaches::executed);
    }

    /// Drops a page from all arrays.
    pub fn invalidate(&mut self, asid: Asid, page: Page) {
        if self.side.is_some() {
            return self.invalidate_pages(asid, &self.block(page.number, page.size).pages());
        }
        for first in self.first.iter_mut().filter(|first| first.sizes.contains(&page.size)) {
            match &mut first.entries {
                Entries::Array(array) => array.remove(page.entry(asid)),
                Entries::Software(mmu) => mmu.remove(software_key(asid, page.number, page.size)),
            };
        }
        self.lower.invalidate(asid, page.number, page.size);
        self.walker.invalidate_page(asid, page.number, page.size);
        for prefetcher in &mut self.prefetchers {
            prefetcher.invalidate(asid, page.number, page.size);
        }
    }

    /// Drops tables that map some byte of the range from walkers' caches.
    pub fn invalidate_tables(&mut self, start: VirtAddr, bytes: u64) {
        self.walker.invalidate(start, bytes);
    }

    /// Switches to another address space.
    pub fn enter(&mut self, asid: Asid) {
        self.side.iter_mut().for_each(|side| side.enter(asid));
        self.walker.enter(asid);
    }

    /// Drops an address space; returns the entries that left watched TLBs.
    pub fn flush(&mut self, asid: Asid) -> Vec<TlbMove> {
        let left = self.watched_of(asid);
        for first in &mut self.first {
            match &mut first.entries {
                Entries::Array(array) => array.remove_where(|key| Asid::page_of(key).0 == asid),
                Entries::Software(mmu) => {
                    let of_space = |key: &u64| software_page(*key).0 == asid;
                    let gone: Vec<u64> = mmu.pages().filter(of_space).collect();
                    for key in gone {
                        mmu.remove(key);
                    }
                }
            }
        }
        self.side.iter_mut().for_each(|side| side.flush(asid));
        self.lower.flush(asid);
        self.walker.flush(asid);
        self.prefetchers.iter_mut().for_each(|prefetcher| prefetcher.flush(asid));
        left
    }

    /// Moves shared arrays and tables in memory to another core.
    pub fn give_shared(&mut self, to: &mut Tlbs) {
        if let (Some(own), Some(other)) = (&mut self.side, &mut to.side) {
            own.give_shared(other);
        }
        self.lower.swap_shared(&mut to.lower);
        for (own, other) in self.prefetchers.iter_mut().zip(&mut to.prefetchers) {
            if self.machine.tlbs[own.array].shared {
                std::mem::swap(own, other);
            }
        }
        self.walker.give_tables(&mut to.walker);
        if let (Some(own), Some(other)) = (&mut self.memory, &mut to.memory) {
            own.hierarchy.swap_shared(&mut other.hierarchy);
        }
    }

    /// Lookups and hits of all TLB arrays, in the machine's order.
    pub fn arrays(&self) -> Vec<ClassCounts> {
        let none = |tlb: &pagewalk_translate::TlbSpec| ClassCounts {
            name: tlb.name.clone(),
            level: tlb.level,
            lookups: 0,
            hits: 0,
        };
        let mut arrays: Vec<ClassCounts> = self.machine.tlbs.iter().map(none).collect();
        for first in &self.first {
            let served = (0..CLASSES).filter(|&class| first.serves.has(KINDS[class]));
            arrays[first.index].lookups = served.map(|class| self.lookups[class]).sum();
            arrays[first.index].hits = first.hits;
        }
        for (index, counts) in self.lower.counts() {
            (arrays[index].lookups, arrays[index].hits) = (counts.lookups, counts.hits);
        }
        arrays
    }

    /// The walker, for its counts.
    pub fn walker(&self) -> &Walker {
        &self.walker
    }

    /// The prefetchers.
    pub fn prefetchers(&self) -> &[Prefetcher] {
        &self.prefetchers
    }

    /// Caches of memory by requester.
    pub fn caches(&self) -> Vec<CacheTotals> {
        self.memory.iter().flat_map(|memory| cache_totals(&self.machine, memory, None)).collect()
    }

    /// Counts of the memory behind the caches, if there are caches.
    pub fn memory_counts(&self) -> Option<MemoryCounts> {
        self.memory.as_ref().map(|memory| memory.counts)
    }
}

/// The last class of data references.
pub(super) const LAST_DATA: usize = CLASSES - 1;
