//! Ranges and the range TLB.

use super::counts::RangeUse;
use super::spec::RangeTlbSpec;

/// Base pages that are contiguous in virtual and physical memory, under the same rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Range {
    /// First page number.
    pub base: u64,
    /// One past the last.
    pub limit: u64,
    /// First frame minus first page, modulo 2^64.
    pub offset: u64,
}

impl Range {
    /// Whether a page lies in it; the limit does not.
    #[inline(always)]
    pub fn contains(&self, page: u64) -> bool {
        page.wrapping_sub(self.base) < self.limit - self.base
    }

    /// Whether it has pages of `base..limit`.
    pub fn overlaps(&self, pages: &std::ops::Range<u64>) -> bool {
        self.base < pages.end && pages.start < self.limit
    }
}

/// A fully associative LRU TLB of ranges.
#[derive(Clone, Debug)]
pub(super) struct RangeTlb {
    spec: RangeTlbSpec,
    /// Ranges, the last used first.
    ranges: Vec<Range>,
    counts: RangeUse,
}

impl RangeTlb {
    pub fn new(spec: &RangeTlbSpec) -> RangeTlb {
        let counts = RangeUse {
            name: spec.name.clone(),
            level: spec.level,
            entries: spec.entries,
            ..RangeUse::default()
        };
        RangeTlb { ranges: Vec::with_capacity(spec.entries as usize), spec: spec.clone(), counts }
    }

    /// The range that `n` consecutive references to one page hit. If they miss, `missing` of them probe it.
    #[inline(always)]
    pub fn look_up(&mut self, page: u64, n: u64, missing: u64) -> Option<Range> {
        let Some(at) = self.ranges.iter().position(|range| range.contains(page)) else {
            self.counts.lookups += missing;
            return None;
        };
        self.counts.lookups += n;
        self.counts.hits += n;
        if at == 0 {
            self.counts.mru_hits += n;
        } else {
            self.counts.mru_hits += n - 1;
            self.ranges[..=at].rotate_right(1);
        }
        Some(self.ranges[0])
    }

    /// Inserts a range, and drops overlapping ones, which are its older shapes.
    pub fn insert(&mut self, range: Range) {
        self.remove(&(range.base..range.limit));
        self.ranges.truncate(self.spec.entries as usize - 1);
        self.ranges.insert(0, range);
        self.counts.writes += 1;
    }

    /// Drops ranges that overlap these pages.
    pub fn remove(&mut self, pages: &std::ops::Range<u64>) {
        self.ranges.retain(|range| !range.overlaps(pages));
    }

    pub fn counts(&self) -> RangeUse {
        let reads = self.counts.lookups - if self.spec.mru { self.counts.mru_hits } else { 0 };
        RangeUse { reads, ..self.counts.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(base: u64, limit: u64) -> Range {
        Range { base, limit, offset: 0 }
    }

    fn tlb(entries: u32, mru: bool) -> RangeTlb {
        RangeTlb::new(&RangeTlbSpec { name: "r".into(), level: 2, entries, mru })
    }

    /// Karakostas 2016, section 4.3: the limit is exclusive.
    #[test]
    fn a_page_equal_to_the_limit_misses() {
        let mut tlb = tlb(2, false);
        tlb.insert(range(8, 16));
        let hits = [7, 8, 15, 16].map(|page| tlb.look_up(page, 1, 1).is_some());
        assert_eq!(hits, [false, true, true, false]);
    }

    /// Section 4.4.4: the invalidation of one page drops ranges around it.
    #[test]
    fn any_page_of_a_range_drops_it() {
        let mut tlb = tlb(2, false);
        tlb.insert(range(8, 16));
        tlb.insert(range(16, 24));
        tlb.remove(&(12..13));
        assert_eq!([12, 16].map(|page| tlb.look_up(page, 1, 1).is_some()), [false, true]);
    }

    #[test]
    fn the_least_recently_used_leaves_and_repetitions_need_no_search() {
        let mut tlb = tlb(2, true);
        tlb.insert(range(0, 8));
        tlb.insert(range(8, 16));
        assert!(tlb.look_up(1, 5, 1).is_some());
        tlb.insert(range(16, 24));
        assert!(tlb.look_up(8, 1, 1).is_none() && tlb.look_up(1, 1, 1).is_some());
        let counts = tlb.counts();
        assert_eq!((counts.lookups, counts.hits, counts.mru_hits, counts.reads), (7, 6, 4, 3));
    }
}
