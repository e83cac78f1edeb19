//! One design's data side, reference by reference.

use super::anchored::Anchored;
use super::coalesced::Coalesced;
use super::counts::{AnchorUse, ArrayUse, DataSideCounts, Operations};
use super::lite::Lite;
use super::predictor::Predictor;
use super::range::RangeTlb;
use super::range_table::RangeWalk;
use super::spec::{Coalesce, DataSideSpec, RangeFill, RangeTlbSpec};
use super::way_array::WayArray;
use crate::{MachineSpec, RadixWalker, TlbSpec, WalkerSpec};
use pagewalk_setassoc::SetArray;
use pagewalk_units::{PageSize, Paging, VirtAddr};
use std::ops::Range;

/// What the kernel has made of the pages: asked on misses alone.
pub trait Memory {
    /// The size of the page that maps a base page. The first walk of one decides.
    fn size(&mut self, page: u64) -> PageSize;
    /// The frame of a base page, if it has one, and whether the page may be read, written and executed.
    fn frame(&self, page: u64) -> Option<(u64, [bool; 3])>;
    /// How many pages from a base page on, up to `most`, lie in frames that follow each other, under the same rights.
    fn together(&mut self, page: u64, most: u64) -> u64;
    /// The lengths of all runs of base pages that lie so.
    fn runs(&mut self) -> Vec<u64>;
    /// Walks the range table for a page.
    fn range(&mut self, page: u64) -> Option<RangeWalk>;
    /// A walk for this page is made: the size of the page that maps it.
    fn walked(&mut self, page: u64) -> PageSize;
}

/// A way to look a page up: in an array, as part of a page of 2^shift base pages.
#[derive(Clone, Copy, Debug)]
struct Probe {
    array: usize,
    shift: u32,
}

/// A page TLB of level 2.
#[derive(Clone, Debug)]
struct Second {
    entries: Entries,
    /// What it holds, as doublings of a base page.
    shifts: Vec<u32>,
    hits: u64,
    writes: u64,
}

#[derive(Clone, Debug)]
enum Entries {
    Pages(SetArray),
    Coalesced(Coalesced),
    Anchored(Anchored),
}

/// The arrays, the walker, and their counts.
#[derive(Clone, Debug)]
pub struct DataSide {
    machine: MachineSpec,
    spec: DataSideSpec,
    paging: Paging,
    first: Vec<WayArray>,
    probes: Vec<Probe>,
    second: Vec<Second>,
    /// Groups that coalesce as a whole in some array, as doublings, largest first.
    aligned: Vec<u32>,
    /// By level, 1 first.
    ranges: [Option<RangeTlb>; 2],
    walker: RadixWalker,
    lite: Option<Lite>,
    predictor: Option<Predictor>,
    /// Instructions at which the distance of anchors was last chosen.
    anchors_chosen: u64,
    counts: DataSideCounts,
}

/// What an array holds, as doublings of a base page, smallest first.
fn shifts(tlb: &TlbSpec, paging: Paging) -> Vec<u32> {
    let base = paging.base().shift();
    let mut shifts: Vec<u32> = tlb.page_sizes.iter().map(|size| size.shift() - base).collect();
    shifts.extend(aligned_shift(tlb));
    shifts.sort_unstable();
    shifts
}

/// The group that coalesces as a whole, as doublings of a base page.
fn aligned_shift(tlb: &TlbSpec) -> Option<u32> {
    match tlb.coalesce {
        Some(Coalesce::Aligned(pages)) => Some(pages.ilog2()),
        _ => None,
    }
}

/// What is found for a page in an array that mixes sizes.
#[inline(always)]
pub(super) fn tag(page: u64, shift: u32) -> u64 {
    (page >> shift) << 6 | u64::from(shift)
}

/// Whether what has this tag lies in pages of the range in part.
pub(super) fn lies_in(tag: u64, pages: &Range<u64>) -> bool {
    let (number, shift) = (tag >> 6, tag & 63);
    number << shift < pages.end && pages.start < (number + 1) << shift
}

impl DataSide {
    /// Empty arrays. `None` for machines that are not described as a data side.
    pub fn new(machine: &MachineSpec) -> Option<DataSide> {
        let spec = machine.data_side.as_deref()?.clone();
        let WalkerSpec::Radix(radix) = &machine.walker else {
            unreachable!("the walker was checked when the machine was read")
        };
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
                    Entries::Coalesced(Coalesced::new(rule, tlb.geometry))
                }
                Some(Coalesce::Anchor(pages)) => {
                    Entries::Anchored(Anchored::new(tlb.geometry, shifts.clone(), pages.ilog2()))
                }
                _ => Entries::Pages(tlb.set_array()),
            };
            second.push(Second { entries, shifts, hits: 0, writes: 0 });
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
            walker: RadixWalker::new(radix),
            lite: spec.lite.as_ref().map(|lite| Lite::new(lite, lite.places(&machine.tlbs))),
            predictor: spec.predictor.map(|entries| Predictor::new(entries, paging.huge_order())),
            anchors_chosen: 0,
            counts: DataSideCounts::default(),
            paging,
            spec,
            machine: machine.clone(),
        })
    }

    /// What it was made of.
    pub fn machine(&self) -> &MachineSpec {
        &self.machine
    }

    /// `n` references in a row to one base page.
    #[inline]
    pub fn reference(&mut self, page: u64, n: u64, memory: &mut impl Memory) {
        let mut left = n;
        // Where no array of level 1 holds such pages, a miss brings nothing that the next reference hits.
        while left > 0 && !self.hit(page, left) {
            self.miss(page, memory);
            self.counts.references += 1;
            left -= 1;
        }
        self.counts.references += left;
    }

    /// Whether level 1 serves `n` references in a row; if it does, they are counted there.
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

    /// Whether the range TLB of level 1 serves `n` references in a row, which a page TLB serves too or does not.
    #[inline(always)]
    fn in_range(&mut self, page: u64, n: u64, found: bool) -> bool {
        let Some(ranges) = &mut self.ranges[0] else { return false };
        // Of references that miss everything one is made: the others come again.
        let missing = if found { n } else { 1 };
        ranges.look_up(page, n, missing).is_some()
    }

    /// Counts `n` references in a row where a page TLB found the first, if one did.
    #[inline(always)]
    fn count(&mut self, found: Option<(Probe, usize)>, n: u64) -> bool {
        let Some((probe, rank)) = found else { return false };
        self.first[probe.array].count(rank, n);
        true
    }

    /// [`DataSide::hit`] where page sizes are predicted: all references in a row but the first know the size that the
    /// page was found at, unless it was found at none.
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

    /// No array of level 1 has the page.
    #[inline(never)]
    fn miss(&mut self, page: u64, memory: &mut impl Memory) {
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
        match (held, range) {
            (Some(shift), _) => self.fill_first(page, shift),
            (None, Some(_)) => {
                let shift = match self.spec.range_fill {
                    RangeFill::Base => 0,
                    RangeFill::Mapped => self.doublings(memory.size(page)),
                };
                self.fill_first(page, shift);
            }
            (None, None) => self.walk(page, memory),
        }
    }

    /// A page of this size, as doublings of a base page.
    fn doublings(&self, size: PageSize) -> u32 {
        size.shift() - self.paging.base().shift()
    }

    fn walk(&mut self, page: u64, memory: &mut impl Memory) {
        let size = memory.walked(page);
        let address = VirtAddr(page << self.paging.base().shift());
        self.counts.walks += 1;
        self.counts.walk_references += u64::from(self.walker.walk(address, size));
        let mapped = self.doublings(size);
        let together = |&&shift: &&u32| mapped == 0 && lie_together(page, shift, memory);
        let largest = self.aligned.iter().find(together).copied().unwrap_or(mapped);
        self.fill_first(page, largest);
        for second in &mut self.second {
            second.fill(page, mapped, largest, memory);
        }
        if self.ranges.iter().any(Option::is_some)
            && let Some(RangeWalk { range, nodes }) = memory.range(page)
        {
            self.counts.range_walks += 1;
            self.counts.range_nodes += u64::from(nodes);
            self.ranges.iter_mut().flatten().for_each(|ranges| ranges.insert(range));
        }
    }

    /// Puts a page into level 1: as large as an array holds, and as is known of it.
    fn fill_first(&mut self, page: u64, known: u32) {
        let fits = self.probes.iter().filter(|probe| probe.shift <= known);
        if let Some(&Probe { array, shift }) = fits.max_by_key(|probe| probe.shift) {
            self.first[array].fill(page >> shift, tag(page, shift), self.counts.references);
            if let Some(predictor) = &mut self.predictor {
                predictor.learn(page, shift);
            }
        }
    }

    fn anchors_due(&self) -> Option<u64> {
        self.spec.anchor_interval.map(|interval| self.anchors_chosen.saturating_add(interval))
    }

    /// Instructions at which the next decision is due, of Lite or of the distance of anchors; `None` where none is.
    pub fn due(&self) -> Option<u64> {
        self.lite.as_ref().map(Lite::due).into_iter().chain(self.anchors_due()).min()
    }

    /// Decides what is due after so many instructions.
    pub fn decide(&mut self, instructions: u64, memory: &mut impl Memory) {
        if self.anchors_due().is_some_and(|due| due <= instructions) {
            let runs = memory.runs();
            self.second.iter_mut().filter_map(Second::anchored).for_each(|array| array.choose(&runs));
            self.anchors_chosen = instructions;
        }
        if let Some(lite) = &mut self.lite
            && lite.due() <= instructions
        {
            lite.decide(&mut self.first, instructions, self.counts.references);
        }
    }

    /// Drops what is known of these base pages.
    pub fn invalidate(&mut self, pages: &Range<u64>) {
        self.first.iter_mut().for_each(|array| array.remove_where(|tag| lies_in(tag, pages)));
        for second in &mut self.second {
            match &mut second.entries {
                Entries::Pages(array) => array.remove_where(|tag| lies_in(tag, pages)),
                Entries::Coalesced(array) => array.remove(pages),
                Entries::Anchored(array) => array.remove(pages),
            }
        }
        self.ranges.iter_mut().flatten().for_each(|ranges| ranges.remove(pages));
        let base = self.paging.base().shift();
        let bytes = (pages.end - pages.start) << base;
        self.walker.invalidate(VirtAddr(pages.start << base), bytes);
    }

    /// What was counted so far.
    pub fn counts(&mut self) -> DataSideCounts {
        let (references, misses) = (self.counts.references, self.counts.level1_misses);
        let mut arrays = Vec::new();
        let mut first = self.first.iter_mut();
        let mut second = self.second.iter_mut();
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
                // By each miss of level 1, by those whose size was predicted wrong again, and for anchors.
                let reads = misses + again + array.anchored().map_or(0, |array| array.lookups);
                let operations = Operations { ways, reads, writes: array.writes };
                arrays.push(of(array.hits, vec![operations]));
            }
        }
        let WalkerSpec::Radix(radix) = &self.machine.walker else { unreachable!("checked in `new`") };
        for ((name, cache), (_, counts)) in radix.caches().zip(self.walker.counts()) {
            // All are searched by every walk at once, also those that cannot have what it needs.
            let operations = Operations {
                ways: cache.geometry.ways() as u32,
                reads: self.counts.walks,
                writes: counts.fills,
            };
            let sets = cache.geometry.sets() as u32;
            let hits = counts.hits;
            arrays.push(ArrayUse {
                name: name.to_owned(),
                level: 0,
                sets,
                hits,
                operations: vec![operations],
            });
        }
        let of_spec = |spec: &RangeTlbSpec| {
            self.ranges[usize::from(spec.level) - 1]
                .as_ref()
                .expect("one for each level that has one")
                .counts()
        };
        let lite = self.lite.as_ref();
        let anchors = self.second.iter_mut().find_map(Second::anchored).map(|array| AnchorUse {
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

/// Whether the aligned group of so many doublings around a base page lies in aligned frames that follow each other,
/// under the same rights.
fn lie_together(page: u64, shift: u32, memory: &impl Memory) -> bool {
    let first = page >> shift << shift;
    let lies = memory.frame(first).filter(|(frame, _)| frame.trailing_zeros() >= shift);
    lies.is_some_and(|(frame, rights)| {
        (1..1 << shift).all(|i| memory.frame(first + i) == Some((frame + i, rights)))
    })
}

impl Second {
    fn anchored(&mut self) -> Option<&mut Anchored> {
        match &mut self.entries {
            Entries::Anchored(array) => Some(array),
            _ => None,
        }
    }

    /// The largest page that it has around this one, which is then used.
    fn touch(&mut self, page: u64) -> Option<u32> {
        match &mut self.entries {
            Entries::Coalesced(array) => array.touch(page).then_some(0),
            Entries::Anchored(array) => array.touch(page),
            Entries::Pages(array) => {
                self.shifts.iter().rev().copied().find(|&shift| array.touch(page >> shift, tag(page, shift)))
            }
        }
    }

    /// Takes what a walk found: pages of their size, base pages together where it coalesces.
    fn fill(&mut self, page: u64, mapped: u32, largest: u32, memory: &mut impl Memory) {
        match &mut self.entries {
            Entries::Coalesced(array) if mapped == 0 => array.fill(page, memory),
            Entries::Coalesced(_) => return,
            Entries::Anchored(array) if self.shifts.contains(&mapped) => array.fill(page, mapped, memory),
            Entries::Anchored(_) => return,
            Entries::Pages(array) => {
                let fits = |&&shift: &&u32| if mapped > 0 { shift == mapped } else { shift <= largest };
                let Some(&shift) = self.shifts.iter().rev().find(fits) else { return };
                array.fill(page >> shift, tag(page, shift));
            }
        }
        self.writes += 1;
    }
}
