//! One design's data side, reference by reference.

use super::anchored::AnchoredArray;
use super::coalesced::CoalescedArray;
use super::counts::{AnchorUse, ArrayUse, DataSideCounts, Operations};
use super::lite::Lite;
use super::memory::SideMemoryView;
use super::predictor::Predictor;
use super::range::RangeTlb;
use super::range_table::RangeWalk;
use super::second::{Entries, FillSizes, SecondLevel};
use super::spec::{Coalesce, DataSideSpec, RangeFill, RangeTlbSpec};
use super::tag::{EntryMoves, EntryTag, held, lies_in, tag};
use super::way_array::WayArray;
use crate::{Asid, MachineSpec, TlbSpec, Walker};
use pagewalk_units::{PageSize, Paging, VirtAddr};
use std::ops::Range;

/// A probe of an array, for a page of 2^shift base pages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    array: usize,
    pub(super) shift: u32,
}

/// The arrays, the walker, and their counts.
// Many fields: the parts of a machine, in the order of a reference.
#[derive(Clone, Debug)]
pub struct DataSide {
    machine: MachineSpec,
    spec: DataSideSpec,
    paging: Paging,
    pub(super) first: Vec<WayArray>,
    pub(super) probes: Vec<Probe>,
    pub(super) second: Vec<SecondLevel>,
    /// Sizes of groups that some array coalesces as a whole, as doublings, largest first.
    aligned: Vec<u32>,
    /// Range TLBs by level.
    ranges: [Option<RangeTlb>; 2],
    walker: Walker,
    /// The running address space.
    asid: Asid,
    lite: Option<Lite>,
    predictor: Option<Predictor>,
    /// Instructions at which the distance of anchors was last chosen.
    anchors_chosen: u64,
    /// Moves of the last level's page arrays, if tracked.
    pub(super) moves: Option<EntryMoves>,
    counts: DataSideCounts,
}

/// The sizes that an array holds, as doublings of a base page, smallest first.
fn shifts(tlb: &TlbSpec, paging: Paging) -> Vec<u32> {
    let base = paging.base().shift();
    let mut shifts: Vec<u32> = tlb.page_sizes.iter().map(|size| size.shift() - base).collect();
    shifts.extend(aligned_shift(tlb));
    shifts.sort_unstable();
    shifts
}

/// The group that an array coalesces as a whole, as doublings of a base page.
fn aligned_shift(tlb: &TlbSpec) -> Option<u32> {
    match tlb.coalesce {
        Some(Coalesce::Aligned(pages)) => Some(pages.ilog2()),
        _ => None,
    }
}

impl DataSide {
    /// Empty arrays. `None` for machines that are no data side.
    pub fn new(machine: &MachineSpec) -> Option<DataSide> {
        let spec = machine.data_side.as_deref()?.clone();
        let paging = machine.paging;
        let (mut first, mut probes, mut second) = (Vec::new(), Vec::new(), Vec::new());
        for tlb in &machine.tlbs {
            let shifts = shifts(tlb, paging);
            if tlb.level == 1 {
                probes.extend(shifts.iter().map(|&shift| Probe { array: first.len(), shift }));
                first.push(WayArray::new(tlb.geometry));
                continue;
            }
            let entries = match tlb.coalesce {
                Some(rule @ (Coalesce::Clustered(_) | Coalesce::Contiguous(_))) => {
                    Entries::Coalesced(CoalescedArray::new(rule, tlb.geometry))
                }
                Some(Coalesce::Anchor(pages)) => {
                    Entries::Anchored(AnchoredArray::new(tlb.geometry, shifts.clone(), pages.ilog2()))
                }
                _ => Entries::Pages(tlb.set_array()),
            };
            second.push(SecondLevel { entries, shifts, shared: tlb.shared, hits: 0, writes: 0 });
        }
        let mut aligned: Vec<u32> = machine.tlbs.iter().filter_map(aligned_shift).collect();
        aligned.sort_unstable_by_key(|&shift| std::cmp::Reverse(shift));
        let of_level = |level: u8| {
            let ranges = |spec: &&RangeTlbSpec| spec.level == level;
            spec.range_tlbs.iter().find(ranges).map(RangeTlb::new)
        };
        Some(DataSide {
            first,
            probes,
            second,
            aligned,
            ranges: [of_level(1), of_level(2)],
            walker: Walker::new(&machine.walker),
            asid: Asid::default(),
            lite: spec.lite.as_ref().map(|lite| Lite::new(lite, lite.places(&machine.tlbs))),
            predictor: spec.predictor.map(|entries| Predictor::new(entries, paging.huge_order())),
            anchors_chosen: 0,
            moves: None,
            counts: DataSideCounts::default(),
            paging,
            spec,
            machine: machine.clone(),
        })
    }

    /// Its machine.
    pub fn machine(&self) -> &MachineSpec {
        &self.machine
    }

    /// `n` consecutive references to one base page, at least one.
    #[inline]
    pub fn reference(&mut self, page: u64, n: u64, memory: &mut impl SideMemoryView) {
        if !self.hits(page, n) {
            self.miss(page, n, memory);
        }
    }

    /// [`DataSide::reference`], of which the first misses level 1.
    #[inline(never)]
    fn miss(&mut self, page: u64, n: u64, memory: &mut impl SideMemoryView) {
        let mut left = n;
        loop {
            if !self.serves_below(page, memory) {
                self.walk(page, memory);
            }
            left -= 1;
            // If no level-1 array holds such pages, the next reference misses again.
            if left == 0 || self.hits(page, left) {
                break;
            }
        }
    }

    /// Makes `n` consecutive references if level 1 serves them; otherwise false.
    #[inline(always)]
    pub fn hits(&mut self, page: u64, n: u64) -> bool {
        let hit = self.hit(page, n);
        if hit {
            self.counts.references += n;
        }
        hit
    }

    /// Counts `n` consecutive references at level 1 if it serves them; otherwise false.
    #[inline(always)]
    fn hit(&mut self, page: u64, n: u64) -> bool {
        let mut found = None;
        for probe in &self.probes {
            if let Some(rank) = self.first[probe.array].touch(page >> probe.shift, tag(page, probe.shift)) {
                found = Some((*probe, rank));
                break;
            }
        }
        if self.predictor.is_some() {
            return self.hit_predicted(page, n, found);
        }
        self.in_range(page, n, found.is_some()) || self.count(found, n)
    }

    /// Whether level 1's range TLB serves `n` consecutive references; `found`: a page TLB does.
    #[inline(always)]
    fn in_range(&mut self, page: u64, n: u64, found: bool) -> bool {
        let Some(ranges) = &mut self.ranges[0] else { return false };
        // If everything misses, only one reference is made: the others come again.
        let missing = if found { n } else { 1 };
        ranges.look_up(page, n, missing).is_some()
    }

    /// Counts `n` consecutive references, given the page TLB's result for the first.
    #[inline(always)]
    fn count(&mut self, found: Option<(Probe, usize)>, n: u64) -> bool {
        let Some((probe, rank)) = found else { return false };
        self.first[probe.array].count(rank, n);
        true
    }

    /// [`DataSide::hit`] with a predictor: after the first reference the size is known, unless the page was not found.
    #[inline(never)]
    fn hit_predicted(&mut self, page: u64, n: u64, found: Option<(Probe, usize)>) -> bool {
        let in_range = self.in_range(page, n, found.is_some());
        let shift = found.map(|(probe, _)| probe.shift);
        let times = if found.is_none() && in_range { n } else { 1 };
        if let Some(predictor) = &mut self.predictor {
            if predictor.searched_twice(0, page, shift, times) {
                self.first.iter_mut().for_each(|array| array.search_again(times));
            }
            if let Some(shift) = shift {
                predictor.learn(page, shift);
            }
        }
        in_range || self.count(found, n)
    }

    /// After a level-1 miss: makes the reference if level 2 serves it; otherwise false, and a walk is due.
    #[inline(never)]
    pub fn serves_below(&mut self, page: u64, memory: &mut impl SideMemoryView) -> bool {
        self.counts.level1_misses += 1;
        if let Some(lite) = &mut self.lite {
            lite.misses += 1;
        }
        let mut held = None;
        for second in &mut self.second {
            if let (None, Some(shift)) = (held, second.touch(page)) {
                held = Some(shift);
                second.hits += 1;
            }
        }
        if let Some(predictor) = &mut self.predictor {
            predictor.searched_twice(1, page, held, 1);
        }
        let range = self.ranges[1].as_mut().and_then(|ranges| ranges.look_up(page, 1, 1));
        if let (Some(range), Some(first)) = (range, &mut self.ranges[0]) {
            first.insert(range);
        }
        let shift = match (held, range) {
            (Some(shift), _) => shift,
            (None, Some(_)) => match self.spec.range_fill {
                RangeFill::Base => 0,
                RangeFill::Mapped => self.doublings(memory.size(page)),
            },
            (None, None) => return false,
        };
        self.counts.references += 1;
        self.fill_first(page, shift);
        true
    }

    /// A page size as doublings of a base page.
    fn doublings(&self, size: PageSize) -> u32 {
        size.shift() - self.paging.base().shift()
    }

    /// Makes a reference by a walk; returns the page-table entries read.
    pub fn walk(&mut self, page: u64, memory: &mut impl SideMemoryView) -> u32 {
        let size = memory.walked(page);
        let address = VirtAddr(Asid::number_of(page) << self.paging.base().shift());
        // For sizes between the two that tables have, the entry is repeated for each base page.
        let leaf = if size >= self.paging.huge() { self.paging.huge() } else { self.paging.base() };
        let read = memory.walk(&mut self.walker, address, leaf);
        self.counts.walks += 1;
        self.counts.walk_references += u64::from(read);
        self.counts.references += 1;
        self.fill(page, size, memory);
        if self.ranges.iter().any(Option::is_some)
            && let Some(RangeWalk { range, nodes }) = memory.range(page)
        {
            self.counts.range_walks += 1;
            self.counts.range_nodes += u64::from(nodes);
            self.ranges.iter_mut().flatten().for_each(|ranges| ranges.insert(range));
        }
        read
    }

    /// Fills the page arrays with a base page that a page of this size maps.
    pub fn fill(&mut self, page: u64, size: PageSize, memory: &mut impl SideMemoryView) {
        let sizes = self.fill_sizes(page, size, memory);
        self.fill_first(page, sizes.largest);
        for at in 0..self.second.len() {
            if self.moves.is_some() {
                let entry = self.second[at].entry(page, sizes, memory);
                self.enters(entry);
            }
            let replaced = self.second[at].fill(page, sizes, memory);
            self.leave(replaced);
        }
    }

    pub(super) fn fill_sizes(&self, page: u64, size: PageSize, memory: &impl SideMemoryView) -> FillSizes {
        let mapped = self.doublings(size);
        let together = |&&shift: &&u32| mapped == 0 && lie_together(page, shift, memory);
        FillSizes { mapped, largest: self.aligned.iter().find(together).copied().unwrap_or(mapped) }
    }

    /// Fills level 1 with the largest page that an array holds, up to the `known` doublings.
    fn fill_first(&mut self, page: u64, known: u32) {
        let fits = self.probes.iter().filter(|probe| probe.shift <= known);
        if let Some(&Probe { array, shift }) = fits.max_by_key(|probe| probe.shift) {
            let is_last = self.second.is_empty();
            if is_last && self.moves.is_some() {
                self.enters(Some((page >> shift << shift, shift)));
            }
            let victim = self.first[array].fill(page >> shift, tag(page, shift), self.counts.references);
            self.leave(victim.filter(|_| is_last).map(held));
            if let Some(predictor) = &mut self.predictor {
                predictor.learn(page, shift);
            }
        }
    }

    fn anchors_due(&self) -> Option<u64> {
        self.spec.anchor_interval.map(|interval| self.anchors_chosen.saturating_add(interval))
    }

    /// Instructions at which Lite or the choice of distance is due next; `None` without either.
    pub fn due(&self) -> Option<u64> {
        self.lite.as_ref().map(Lite::due).into_iter().chain(self.anchors_due()).min()
    }

    /// Makes the decisions due at `instructions`.
    pub fn decide(&mut self, instructions: u64, memory: &mut impl SideMemoryView) {
        if self.anchors_due().is_some_and(|due| due <= instructions) {
            let runs = memory.runs();
            let arrays = self.second.iter_mut().filter_map(SecondLevel::anchored_mut);
            let dropped: Vec<EntryTag> = arrays.flat_map(|array| array.choose(&runs)).collect();
            self.leave(dropped);
            self.anchors_chosen = instructions;
        }
        if let Some(lite) = &mut self.lite
            && lite.due() <= instructions
        {
            let dropped = lite.decide(&mut self.first, instructions, self.counts.references);
            let is_last = self.second.is_empty();
            self.leave(dropped.into_iter().filter(|_| is_last).map(held));
        }
    }

    /// Drops base pages of an address space.
    pub fn invalidate_of(&mut self, asid: Asid, pages: &Range<u64>) {
        self.drop_pages(&(asid.page(pages.start)..asid.page(pages.end)));
        let base = self.paging.base().shift();
        self.walker.enter(asid);
        self.walker.invalidate(VirtAddr(pages.start << base), (pages.end - pages.start) << base);
        self.walker.enter(self.asid);
    }

    /// Drops base pages of the running address space.
    pub fn invalidate(&mut self, pages: &Range<u64>) {
        self.invalidate_of(self.asid, pages);
    }

    /// Switches to another address space.
    pub fn enter(&mut self, asid: Asid) {
        self.asid = asid;
        self.walker.enter(asid);
    }

    /// Drops an address space.
    pub fn flush(&mut self, asid: Asid) {
        self.drop_pages(&asid.pages());
        self.walker.flush(asid);
    }

    /// Moves shared arrays and tables in memory to another core.
    pub fn give_shared(&mut self, to: &mut DataSide) {
        let second = self.second.iter_mut().zip(&mut to.second);
        second.filter(|(own, _)| own.shared).for_each(|(own, to)| std::mem::swap(own, to));
        self.walker.give_tables(&mut to.walker);
    }

    /// Whether a level-1 page array holds a base page.
    pub fn holds_in_first(&self, page: u64) -> bool {
        self.probes.iter().any(|of| self.first[of.array].contains(page >> of.shift, tag(page, of.shift)))
    }

    fn drop_pages(&mut self, pages: &Range<u64>) {
        self.first.iter_mut().for_each(|array| array.remove_where(|tag| lies_in(tag, pages)));
        self.second.iter_mut().for_each(|second| second.remove(pages));
        self.ranges.iter_mut().flatten().for_each(|ranges| ranges.remove(pages));
    }

    /// Walks so far.
    pub fn walks(&self) -> u64 {
        self.counts.walks
    }

    /// Page-table entries that they read.
    pub fn walk_references(&self) -> u64 {
        self.counts.walk_references
    }

    /// Counts so far.
    pub fn counts(&self) -> DataSideCounts {
        let (references, misses) = (self.counts.references, self.counts.level1_misses);
        let mut arrays = Vec::new();
        let mut first = self.first.iter();
        let mut second = self.second.iter();
        let again = self.predictor.as_ref().map_or(0, |predictor| predictor.again[1]);
        for tlb in &self.machine.tlbs {
            let sets = tlb.geometry.sets() as u32;
            let of = |hits: u64, operations: Vec<Operations>| ArrayUse {
                name: tlb.name.clone(),
                level: tlb.level,
                sets,
                hits,
                operations,
            };
            let ways = tlb.geometry.ways() as u32;
            if tlb.level == 1 {
                let array = first.next().expect("one for each array of level 1");
                arrays.push(of(array.hits(), array.operations(references)));
            } else {
                let array = second.next().expect("one for each other array");
                // Level-1 misses, second searches after a wrong prediction, and lookups of anchors.
                let reads = misses + again + array.anchored().map_or(0, |array| array.lookups);
                let operations = Operations { ways, reads, writes: array.writes };
                arrays.push(of(array.hits, vec![operations]));
            }
        }
        for ((name, cache), (_, counts)) in self.machine.walker.caches().into_iter().zip(self.walker.counts())
        {
            // Every walk searches all caches at once, even those that cannot help.
            let operations = Operations {
                ways: cache.geometry.ways() as u32,
                reads: self.counts.walks,
                writes: counts.fills,
            };
            let sets = cache.geometry.sets() as u32;
            let hits = counts.hits;
            arrays.push(ArrayUse { name, level: 0, sets, hits, operations: vec![operations] });
        }
        let of_spec = |spec: &RangeTlbSpec| {
            self.ranges[usize::from(spec.level) - 1]
                .as_ref()
                .expect("one for each level that has one")
                .counts()
        };
        let lite = self.lite.as_ref();
        let anchors = self.second.iter().find_map(SecondLevel::anchored).map(|array| AnchorUse {
            lookups: array.lookups,
            hits: array.hits,
            distance: array.distance(),
            changes: array.changes,
        });
        DataSideCounts {
            anchors,
            searched_again: self.predictor.as_ref().map(|predictor| predictor.again),
            arrays,
            ranges: self.spec.range_tlbs.iter().map(of_spec).collect(),
            intervals: lite.map_or(0, |lite| lite.intervals),
            reactivations: lite.map_or([0; 2], |lite| lite.reactivations),
            ..self.counts.clone()
        }
    }
}

/// Whether the aligned group of 2^`shift` pages around a base page lies in aligned consecutive frames under the same
/// rights.
fn lie_together(page: u64, shift: u32, memory: &impl SideMemoryView) -> bool {
    let first = page >> shift << shift;
    let lies = memory.frame(first).filter(|(frame, _)| frame.trailing_zeros() >= shift);
    lies.is_some_and(|(frame, rights)| {
        (1..1 << shift).all(|i| memory.frame(first + i) == Some((frame + i, rights)))
    })
}
