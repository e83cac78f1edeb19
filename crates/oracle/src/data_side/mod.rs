//! Reference model of a data side with ranges, coalescing and ways that can be switched off.
//!
//! An array is a list of sets, each set a list of its entries in order of use.

mod arrays;
mod memory;
mod segment;

pub use arrays::{Anchors, Entry, PageTlb, RangeTlb, Rule};
pub use segment::Segments;

use crate::Frames;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// A page-walk cache.
#[derive(Clone, Debug)]
pub struct WalkCache {
    /// Level above base pages: 1 for entries that point to tables of base pages.
    pub height: u32,
    /// Sets and ways.
    pub shape: (usize, usize),
    /// The sets, the most recently used entry first.
    pub held: Vec<Vec<u64>>,
    /// Number of hits and of writes.
    pub counts: [u64; 2],
}

/// The Lite mechanism, which switches ways off.
#[derive(Clone, Debug)]
pub struct Lite {
    /// Indices of the level-1 arrays that it controls.
    pub tlbs: Vec<usize>,
    /// The threshold, whether it is relative, and the least value of a relative threshold.
    pub threshold: (f64, bool, f64),
    /// Instructions per interval.
    pub interval: u64,
    /// Whether to compare with the minimum of all intervals; else with the last interval.
    pub minimum: bool,
    /// The random decisions, in order: true if all ways are switched on.
    pub chances: Vec<bool>,
    /// The value to compare with.
    pub previous: Option<f64>,
    /// Misses since the last decision, and the instruction count at that decision.
    pub since: (u64, u64),
    /// Number of decisions, and of those that switched all ways on: at random, and because misses grew.
    pub counts: [u64; 3],
}

/// Background collapse to huge pages.
#[derive(Clone, Debug)]
pub struct Collapse {
    /// Instructions between scans.
    pub interval: u64,
    /// Blocks per scan, and the least number of pages of a block that must have been walked for.
    pub least: (usize, usize),
    /// Instruction count at the last scan.
    pub from: u64,
    /// The last block scanned.
    pub last: Option<(u64, u32)>,
    /// Pages for which a walk was made.
    pub walked: BTreeSet<u64>,
    /// Number of blocks collapsed.
    pub done: u64,
}

/// The page-size predictor.
#[derive(Clone, Debug)]
pub struct Predictor {
    /// Number of entries of the table.
    pub entries: u64,
    /// For each trained entry, whether it predicts huge pages.
    pub huge: BTreeMap<u64, bool>,
    /// Repeated searches, by level.
    pub again: [u64; 2],
}

/// An area of memory.
#[derive(Clone, Debug)]
pub struct Area {
    /// Its pages.
    pub pages: Range<u64>,
    /// Its access rights; 0 if it may not be accessed.
    pub rights: u8,
    /// Whether it is anonymous memory, which may have huge pages.
    pub anonymous: bool,
    /// Whether it is hugetlb memory, with pages at least as large as blocks.
    pub hugetlb: bool,
    /// The number of its mapping.
    pub mapping: u32,
}

/// The frames that back pages.
#[derive(Clone, Debug)]
pub struct Backing {
    /// The physical memory.
    pub memory: Frames,
    /// Whether accessible memory is backed at once; else each page is backed when it is walked for.
    pub eager: bool,
    /// The frame of each page.
    pub frames: BTreeMap<u64, u64>,
    /// Walks for pages without a frame.
    pub unbacked: u64,
}

/// The model of the data side.
#[derive(Clone, Debug, Default)]
pub struct DataSide {
    /// The frames; if `None`, a mapped page lies in the frame with its own number.
    pub backing: Option<Backing>,
    /// The page TLBs of level 1.
    pub first: Vec<PageTlb>,
    /// The page TLBs of level 2.
    pub second: Vec<PageTlb>,
    /// The range TLBs, by level.
    pub ranges: [Option<RangeTlb>; 2],
    /// Whether a hit in the level-2 range TLB inserts the page into level 1 at its size.
    pub fills_mapped: bool,
    /// Sizes of the aligned groups that coalesce only as a whole, as doublings.
    pub aligned: Vec<u32>,
    /// The page-walk caches.
    pub caches: Vec<WalkCache>,
    /// Number of page-table levels.
    pub levels: u32,
    /// Least number of pages of a range.
    pub threshold: u64,
    /// Whether blocks of 512 pages may become huge pages.
    pub huge: bool,
    /// Whether hugetlb blocks are mapped by huge pages.
    pub hugetlb: bool,
    /// Background collapse, if enabled.
    pub collapse: Option<Collapse>,
    /// The page-size predictor, if there is one.
    pub predictor: Option<Predictor>,
    /// If the anchor distance is chosen dynamically: the interval, and the instruction count at the last choice.
    pub anchors: Option<(u64, u64)>,
    /// The Lite mechanism, if enabled.
    pub lite: Option<Lite>,
    /// The areas in ascending order.
    pub areas: Vec<Area>,
    /// Blocks that were walked for, by number and mapping: whether they are huge pages.
    pub blocks: BTreeMap<(u64, u32), bool>,
    /// Instructions executed.
    pub instructions: u64,
    /// Number of translations, level-1 misses, walks, entries read, and range walks.
    pub counts: [u64; 5],
}

/// Pages of a block.
const BLOCK: u64 = 512;

impl DataSide {
    /// Executes a block of code with this number of instructions.
    pub fn execute(&mut self, instructions: u64) {
        self.scan();
        if let Some((interval, from)) =
            self.anchors.filter(|(interval, from)| self.instructions - from >= *interval)
        {
            let runs = self.runs();
            let huge = self.second.iter().any(|tlb| tlb.anchors.is_some() && tlb.shifts.contains(&9));
            self.second.iter_mut().for_each(|tlb| tlb.choose_distance(&runs, huge));
            self.anchors = Some((interval, from.max(self.instructions)));
        }
        let due = self.lite.as_ref().is_some_and(|lite| self.instructions - lite.since.1 >= lite.interval);
        if due {
            self.decide();
        }
        self.instructions += instructions;
    }

    /// A reference to one page.
    pub fn reference(&mut self, page: u64) {
        self.counts[0] += 1;
        self.first.iter_mut().for_each(PageTlb::search);
        // Smallest pages first, in the order of the arrays.
        let mut found = None;
        for (index, tlb) in self.first.iter_mut().enumerate() {
            if found.is_none() {
                let order = tlb.shifts.clone();
                found = tlb.find(page, &order).map(|(shift, rank)| (index, rank, shift));
            }
        }
        if self.predict(0, page, found.map(|(_, _, shift)| shift)) {
            self.first.iter_mut().for_each(PageTlb::search);
        }
        if let Some((_, _, shift)) = found {
            self.learn(page, shift);
        }
        if self.ranges[0].as_mut().is_some_and(|ranges| ranges.find(page).is_some()) {
            return;
        }
        match found {
            Some((index, rank, _)) => {
                self.first[index].hits += 1;
                self.first[index].needed[rank] += 1;
            }
            None => self.miss(page),
        }
    }

    /// Whether the search is repeated because the page size was mispredicted.
    fn predict(&mut self, level: usize, page: u64, found: Option<u32>) -> bool {
        let Some(predictor) = &mut self.predictor else { return false };
        let entry = page / BLOCK % predictor.entries;
        let predicted = predictor.huge.get(&entry).copied().unwrap_or(false);
        let twice = found.is_none_or(|shift| (shift > 0) != predicted);
        predictor.again[level] += u64::from(twice);
        twice
    }

    fn learn(&mut self, page: u64, shift: u32) {
        if let Some(predictor) = &mut self.predictor {
            predictor.huge.insert(page / BLOCK % predictor.entries, shift > 0);
        }
    }

    fn miss(&mut self, page: u64) {
        self.counts[1] += 1;
        if let Some(lite) = &mut self.lite {
            lite.since.0 += 1;
        }
        let mut found = None;
        for tlb in &mut self.second {
            tlb.operations.entry(tlb.ways.1).or_default().0 += 1;
            if found.is_none() {
                let order: Vec<u32> = tlb.shifts.iter().rev().copied().collect();
                found = tlb.find(page, &order).map(|(shift, _)| shift);
                if found.is_none() {
                    found = tlb.find_anchor(page);
                }
                tlb.hits += u64::from(found.is_some());
            }
        }
        if self.predict(1, page, found) {
            self.second.iter_mut().for_each(|tlb| tlb.operations.entry(tlb.ways.1).or_default().0 += 1);
        }
        let range = self.ranges[1].as_mut().and_then(|ranges| ranges.find(page));
        if let (Some(range), Some(first)) = (&range, &mut self.ranges[0]) {
            first.put(range.clone());
        }
        match (found, range) {
            (Some(shift), _) => self.put_first(page, shift),
            (None, Some(_)) => {
                let shift = if self.fills_mapped && self.is_huge(page) { 9 } else { 0 };
                self.put_first(page, shift);
            }
            (None, None) => self.walk(page),
        }
    }

    fn put_first(&mut self, page: u64, known: u32) {
        let shifts = self
            .first
            .iter()
            .enumerate()
            .flat_map(|(at, tlb)| tlb.shifts.iter().map(move |&shift| (shift, at)));
        let best = shifts.filter(|&(shift, _)| shift <= known).max_by_key(|&(shift, _)| shift);
        if let Some((shift, at)) = best {
            self.first[at].put(page >> shift, Entry::Page(page >> shift, shift));
            self.learn(page, shift);
        }
    }

    /// Gives a base page a frame, if it is accessible and has none.
    fn back(&mut self, page: u64) {
        let is_usable = self.rights(page).is_some_and(|rights| rights != 0);
        if let (true, Some(backing)) = (is_usable, &mut self.backing)
            && !backing.frames.contains_key(&page)
        {
            match backing.memory.allocate(0) {
                Some(frame) => _ = backing.frames.insert(page, frame),
                None => backing.unbacked += 1,
            }
        }
    }

    fn walk(&mut self, page: u64) {
        self.counts[2] += 1;
        if let Some(collapse) = &mut self.collapse {
            collapse.walked.insert(page);
        }
        let huge = self.is_huge(page);
        if !huge {
            self.back(page);
        }
        let leaf = u32::from(huge);
        let mut from = self.levels;
        for cache in &mut self.caches {
            if cache.height <= leaf {
                continue;
            }
            let key = page >> (9 * cache.height);
            let set = &mut cache.held[key as usize % cache.shape.0];
            if let Some(at) = set.iter().position(|&held| held == key) {
                set.remove(at);
                cache.counts[0] += 1;
                from = from.min(cache.height);
            } else {
                cache.counts[1] += 1;
            }
            set.insert(0, key);
            set.truncate(cache.shape.1);
        }
        self.counts[3] += u64::from(from - leaf);
        let mapped = if huge { 9 } else { 0 };
        let whole = |&&shift: &&u32| {
            let first = page >> shift << shift;
            let is_aligned = self.frame(first).is_some_and(|frame| frame % (1 << shift) == 0);
            mapped == 0 && is_aligned && (0..1 << shift).all(|i| self.lies_with(first, first + i))
        };
        let largest = self.aligned.iter().filter(whole).max().copied().unwrap_or(mapped);
        self.put_first(page, largest);
        let reaches: Vec<u64> = self.second.iter().map(|tlb| self.reach(tlb, page)).collect();
        let groups: Vec<BTreeSet<u64>> = self.second.iter().map(|tlb| self.sharing(tlb, page)).collect();
        for ((tlb, reach), group) in self.second.iter_mut().zip(reaches).zip(groups) {
            if let (Some(anchors), 0) = (tlb.anchors, mapped)
                && reach > 1
                && page % anchors.distance < reach
            {
                let number = page / anchors.distance;
                tlb.put(number, Entry::Anchor(number * anchors.distance, reach));
                continue;
            }
            if let Some((_, pages)) = tlb.group {
                if mapped == 0 {
                    tlb.put(page / pages, Entry::Group(page / pages, group));
                }
                continue;
            }
            let fits = |&&shift: &&u32| if mapped > 0 { shift == mapped } else { shift <= largest };
            if let Some(&shift) = tlb.shifts.iter().rev().find(fits) {
                tlb.put(page >> shift, Entry::Page(page >> shift, shift));
            }
        }
        if self.ranges.iter().any(Option::is_some)
            && let Some(range) = self.range(page)
        {
            self.counts[4] += 1;
            self.ranges.iter_mut().flatten().for_each(|ranges| ranges.put(range.clone()));
        }
    }

    fn drop_translations(&mut self, pages: &Range<u64>) {
        let meets = |of: Range<u64>| of.start < pages.end && pages.start < of.end;
        for tlb in self.first.iter_mut().chain(&mut self.second) {
            let group = tlb.group.map_or(1, |(_, pages)| pages);
            for set in &mut tlb.held {
                set.retain(|entry| {
                    !meets(match entry {
                        Entry::Page(number, shift) => number << shift..(number + 1) << shift,
                        Entry::Group(number, _) => number * group..(number + 1) * group,
                        Entry::Anchor(first, reach) => *first..first + reach,
                    })
                });
            }
        }
        for cache in &mut self.caches {
            let pages_of = 1 << (9 * cache.height);
            cache
                .held
                .iter_mut()
                .for_each(|set| set.retain(|key| !meets(key * pages_of..(key + 1) * pages_of)));
        }
        for ranges in self.ranges.iter_mut().flatten() {
            ranges.held.retain(|range| !meets(range.clone()));
        }
    }

    /// Pages are unmapped (`gone`), or only their translations are invalidated.
    pub fn change(&mut self, pages: Range<u64>, gone: bool) {
        self.drop_translations(&pages);
        let meets = |of: Range<u64>| of.start < pages.end && pages.start < of.end;
        if let (Some(collapse), true) = (&mut self.collapse, gone) {
            collapse.walked.retain(|page| !pages.contains(page));
        }
        if let (Some(backing), true) = (&mut self.backing, gone) {
            for page in pages.clone() {
                if let Some(frame) = backing.frames.remove(&page) {
                    backing.memory.free((frame, 0));
                }
            }
        }
        let whole = |block: u64| pages.start <= block * BLOCK && (block + 1) * BLOCK <= pages.end;
        self.blocks.retain(|&(block, _), _| !(gone && whole(block)));
        for (&(block, _), huge) in &mut self.blocks {
            *huge &= !meets(block * BLOCK..(block + 1) * BLOCK) || whole(block);
        }
    }

    fn decide(&mut self) {
        let Some(mut lite) = self.lite.take() else { return };
        let rate = |misses: u64| misses as f64 * 1000.0 / (self.instructions - lite.since.1) as f64;
        let actual = rate(lite.since.0);
        let (threshold, relative, floor) = lite.threshold;
        let exceeds = |misses: f64, reference: f64| {
            misses - reference >= if relative { (threshold * reference).max(floor) } else { threshold }
        };
        let by_chance = lite.chances[lite.counts[0] as usize];
        let grown = lite.previous.is_some_and(|previous| exceeds(actual, previous));
        lite.counts[0] += 1;
        let mut expected = lite.since.0;
        for &at in &lite.tlbs {
            let tlb = &mut self.first[at];
            if by_chance || grown {
                tlb.ways.1 = tlb.ways.0;
                continue;
            }
            while tlb.ways.1 > 1 {
                let half = tlb.ways.1 / 2;
                let lost: u64 = tlb.needed[half..tlb.ways.1].iter().sum();
                if exceeds(rate(expected + lost), actual) {
                    break;
                }
                expected += lost;
                tlb.ways.1 = half;
                tlb.held.iter_mut().for_each(|set| set.truncate(half));
            }
        }
        if by_chance {
            lite.counts[1] += 1;
        } else if grown {
            lite.counts[2] += 1;
        }
        lite.previous = match lite.previous {
            Some(previous) if lite.minimum => Some(previous.min(actual)),
            _ => Some(actual),
        };
        self.first.iter_mut().for_each(|tlb| tlb.needed.fill(0));
        lite.since = (0, self.instructions);
        self.lite = Some(lite);
    }
}
