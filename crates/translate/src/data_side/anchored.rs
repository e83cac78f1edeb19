//! A second-level array of pages and anchors. Every 2^k-th page is an anchor, whose entry says how many pages from it
//! on lie together in memory.
//!
//! A lookup tries the page first, then its anchor. A walk for a base page fills the anchor's entry if that reaches the
//! page, and otherwise the page's own; larger pages have their own entries. The kernel may periodically choose the
//! process's distance anew: the one that needs the fewest entries for all memory.
//!
//! Source: Park et al., "Hybrid TLB coalescing: improving TLB translation coverage under diverse fragmented memory
//! allocations", ISCA 2017.

use super::memory::SideMemoryView;
use super::spec::DISTANCE_SHIFT_MAX;
use super::tag::{EntryTag, block_of, held, lies_in, tag};
use pagewalk_setassoc::{Geometry, Replacement, SetArray};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// Added to an anchor's doublings in its tag, to distinguish it from pages.
const ANCHOR: u32 = 32;

#[derive(Clone, Debug)]
pub(super) struct AnchoredArray {
    array: SetArray,
    /// Sizes of pages that it holds, as doublings of a base page, smallest first.
    shifts: Vec<u32>,
    /// Doublings of the distance.
    distance: u32,
    /// The reach of each held anchor: pages from it on that lie together.
    reach: FxHashMap<u64, u64>,
    /// Lookups of anchors, and those that hit.
    pub lookups: u64,
    pub hits: u64,
    /// Times that the distance has changed.
    pub changes: u64,
}

impl AnchoredArray {
    pub fn new(geometry: Geometry, shifts: Vec<u32>, distance: u32) -> AnchoredArray {
        let array = SetArray::new(geometry, Replacement::Lru).expect("MachineSpec checks the shape");
        let reach = FxHashMap::default();
        AnchoredArray { array, shifts, distance, reach, lookups: 0, hits: 0, changes: 0 }
    }

    /// Pages from one anchor to the next.
    pub fn distance(&self) -> u64 {
        1 << self.distance
    }

    fn anchor(&self, page: u64) -> (u64, u64) {
        let number = page >> self.distance;
        (number, tag(page, self.distance) + u64::from(ANCHOR))
    }

    /// The largest entry around a page, which counts as used; 0 doublings for an anchor.
    pub fn touch(&mut self, page: u64) -> Option<u32> {
        let own = self.shifts.iter().rev().find(|&&shift| self.array.touch(page >> shift, tag(page, shift)));
        if own.is_some() {
            return own.copied();
        }
        self.lookups += 1;
        let (number, tag) = self.anchor(page);
        let reaches = |&reach: &u64| page - (number << self.distance) < reach;
        let found = self.reach.get(&number).is_some_and(reaches) && self.array.touch(number, tag);
        self.hits += u64::from(found);
        found.then_some(0)
    }

    /// Fills after a walk to a page of a size that it holds. Returns the entry that it replaces, if that had other
    /// pages.
    pub fn fill(&mut self, page: u64, mapped: u32, memory: &mut impl SideMemoryView) -> Option<EntryTag> {
        let (number, of_anchor) = self.anchor(page);
        let Some(reach) = self.reaching(page, mapped, memory) else {
            let gone = self.array.fill(page >> mapped, tag(page, mapped));
            return gone.map(|gone| self.forget(gone));
        };
        let shorter = self.reach.insert(number, reach).filter(|&shorter| shorter != reach);
        let replaced = shorter.map(|shorter| self.block(number, shorter));
        let gone = self.array.fill(number, of_anchor).map(|gone| self.forget(gone));
        gone.or(replaced).filter(|&left| left != self.block(number, reach))
    }

    /// The reach of a page's anchor, if it has one that reaches the page.
    fn reaching(&self, page: u64, mapped: u32, memory: &mut impl SideMemoryView) -> Option<u64> {
        let first = page >> self.distance << self.distance;
        let reach = if mapped == 0 { memory.together(first, self.distance()) } else { 0 };
        (reach > 1 && page - first < reach).then_some(reach)
    }

    /// The entry that a fill of the page makes.
    pub fn entry(&self, page: u64, mapped: u32, memory: &mut impl SideMemoryView) -> EntryTag {
        match self.reaching(page, mapped, memory) {
            Some(reach) => self.block(page >> self.distance, reach),
            None => (page >> mapped << mapped, mapped),
        }
    }

    /// Whether it has this entry.
    pub fn holds(&self, entry: EntryTag) -> bool {
        let (page, shift) = entry;
        let number = page >> self.distance;
        let has = |&reach: &u64| self.block(number, reach) == entry;
        self.array.contains(page >> shift, tag(page, shift)) || self.reach.get(&number).is_some_and(has)
    }

    /// The entries that a change of these pages drops.
    pub fn dropped(&self, pages: &Range<u64>) -> impl Iterator<Item = EntryTag> + '_ {
        let pages = pages.clone();
        self.array.keys().filter(move |&tag| self.overlaps(tag, &pages)).map(|tag| self.entry_of(tag))
    }

    fn overlaps(&self, tag: u64, pages: &Range<u64>) -> bool {
        if tag & 63 < u64::from(ANCHOR) {
            return lies_in(tag, pages);
        }
        let first = tag >> 6 << self.distance;
        first < pages.end && pages.start < first + self.reach[&(tag >> 6)]
    }

    fn entry_of(&self, tag: u64) -> EntryTag {
        if tag & 63 < u64::from(ANCHOR) { held(tag) } else { self.block(tag >> 6, self.reach[&(tag >> 6)]) }
    }

    /// The block of an anchor's pages.
    fn block(&self, number: u64, reach: u64) -> EntryTag {
        let first = number << self.distance;
        block_of(first..first + reach)
    }

    /// The entry of a tag that has left the array.
    fn forget(&mut self, tag: u64) -> EntryTag {
        let entry = self.entry_of(tag);
        if tag & 63 >= u64::from(ANCHOR) {
            self.reach.remove(&(tag >> 6));
        }
        entry
    }

    /// Drops entries that overlap these pages.
    pub fn remove(&mut self, pages: &Range<u64>) {
        let gone: Vec<u64> = self.array.keys().filter(|&tag| self.overlaps(tag, pages)).collect();
        self.array.remove_where(|tag| gone.contains(&tag));
        gone.into_iter().for_each(|tag| _ = self.forget(tag));
    }

    /// Chooses the distance for runs of these lengths. A new distance drops all anchors. Returns their entries.
    pub fn choose(&mut self, runs: &[u64]) -> Vec<EntryTag> {
        let distance = best_distance(runs, self.shifts.last().copied().filter(|&shift| shift > 0));
        if distance == self.distance {
            return Vec::new();
        }
        let dropped = self.reach.iter().map(|(&number, &reach)| self.block(number, reach)).collect();
        self.changes += 1;
        self.distance = distance;
        self.reach.clear();
        self.array.remove_where(|tag| tag & 63 >= u64::from(ANCHOR));
        dropped
    }
}

/// The least distance, as doublings, at which the fewest entries hold all runs, if each begins at an anchor. `large`:
/// doublings of a larger page, which may hold the rest.
fn best_distance(runs: &[u64], large: Option<u32>) -> u32 {
    let entries = |shift: u32| -> u64 {
        let of = |&run: &u64| {
            let (anchors, rest) = (run >> shift, run & ((1 << shift) - 1));
            let larger = large.map_or(0, |large| rest >> large);
            anchors + larger + rest - large.map_or(0, |large| larger << large)
        };
        runs.iter().map(of).sum()
    };
    (1..=DISTANCE_SHIFT_MAX).min_by_key(|&shift| entries(shift)).expect("the range is not empty")
}

#[cfg(test)]
mod tests {
    use super::best_distance;

    /// 18 pages need an anchor and two pages; long runs favour long distances.
    #[test]
    fn the_distance_follows_the_runs() {
        assert_eq!(best_distance(&[16; 100], None), 4);
        assert_eq!(best_distance(&[18], None), 4);
        assert_eq!(best_distance(&[1 << 20], None), 16);
        assert_eq!(best_distance(&[1; 9], None), 1);
        assert_eq!(best_distance(&[], None), 1);
        // 600 pages: 1 anchor of 512 or 1 large page leaves 88 pages; 9 anchors of 64 leave 24.
        assert_eq!(best_distance(&[600], Some(9)), 6);
    }
}
