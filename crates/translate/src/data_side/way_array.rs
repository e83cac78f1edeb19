//! A first-level LRU array whose ways can be switched off.
//!
//! Entries of a set are stored in order of use, so a rank in that order is an index. Switching ways off keeps a set's
//! most recently used entries, as the counters by rank assume; the number of sets stays.

use super::counts::Operations;
use pagewalk_setassoc::Geometry;

const EMPTY: u64 = u64::MAX;

#[derive(Clone, Debug)]
pub(super) struct WayArray {
    geometry: Geometry,
    /// Ways that are on.
    active: usize,
    /// Tags by set, in order of use.
    tags: Vec<u64>,
    /// Hits by rank since the last decision: from index 1 on ranks 1, 2 to 3, 4 to 7, and so on. No decision needs rank
    /// 0.
    pub ranks: Vec<u64>,
    /// Hits of a set's last used entry.
    latest: u64,
    /// All other hits.
    older: u64,
    /// Whether it was ever filled; an unused array is not searched.
    used: bool,
    /// The design's references when searches were last counted.
    counted: u64,
    operations: Vec<Operations>,
}

impl WayArray {
    pub fn new(geometry: Geometry) -> WayArray {
        let ways = geometry.ways();
        WayArray {
            geometry,
            active: ways,
            tags: vec![EMPTY; geometry.entries()],
            ranks: vec![0; rank_class(ways - 1) + 1],
            latest: 0,
            older: 0,
            used: false,
            counted: 0,
            operations: Vec::new(),
        }
    }

    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    pub fn active(&self) -> usize {
        self.active
    }

    /// The rank of a found entry, which becomes the last used of its set.
    #[inline(always)]
    pub fn touch(&mut self, number: u64, tag: u64) -> Option<usize> {
        let first = self.geometry.set_of(number) * self.geometry.ways();
        if self.tags[first] == tag {
            return Some(0);
        }
        self.touch_older(first, tag)
    }

    fn touch_older(&mut self, first: usize, tag: u64) -> Option<usize> {
        let set = &mut self.tags[first..first + self.active];
        let rank = set.iter().position(|&held| held == tag)?;
        set[..=rank].rotate_right(1);
        Some(rank)
    }

    /// Counts `n` consecutive hits, the first at `rank`.
    #[inline(always)]
    pub fn count(&mut self, rank: usize, n: u64) {
        if rank == 0 {
            self.latest += n;
        } else {
            self.count_older(rank, n);
        }
    }

    fn count_older(&mut self, rank: usize, n: u64) {
        self.latest += n - 1;
        self.older += 1;
        self.ranks[rank_class(rank)] += 1;
    }

    /// All hits.
    pub fn hits(&self) -> u64 {
        self.latest + self.older
    }

    /// Whether it holds an entry.
    pub fn contains(&self, number: u64, tag: u64) -> bool {
        let first = self.geometry.set_of(number) * self.geometry.ways();
        self.tags[first..first + self.active].contains(&tag)
    }

    /// The tags of its entries.
    pub fn tags(&self) -> impl Iterator<Item = u64> + '_ {
        self.tags.iter().copied().filter(|&tag| tag != EMPTY)
    }

    /// Inserts a missing tag; returns the victim. `references`: the design's, with the one that fills it. That one does
    /// not search an array that was never used.
    pub fn fill(&mut self, number: u64, tag: u64, references: u64) -> Option<u64> {
        if !self.used {
            (self.used, self.counted) = (true, references);
        }
        let first = self.geometry.set_of(number) * self.geometry.ways();
        let set = &mut self.tags[first..first + self.active];
        set.rotate_right(1);
        let victim = std::mem::replace(&mut set[0], tag);
        self.now().writes += 1;
        (victim != EMPTY).then_some(victim)
    }

    /// Drops entries.
    pub fn remove_where(&mut self, gone: impl Fn(u64) -> bool) {
        for set in self.tags.chunks_mut(self.geometry.ways()) {
            let mut kept = 0;
            for at in 0..set.len() {
                if set[at] != EMPTY && !gone(set[at]) {
                    set[kept] = set[at];
                    kept += 1;
                }
            }
            set[kept..].fill(EMPTY);
        }
    }

    /// Sets the number of ways on; returns tags of entries dropped. `references`: the design's references so far.
    pub fn set_active(&mut self, ways: usize, references: u64) -> Vec<u64> {
        self.count_reads(references);
        self.active = ways;
        let mut dropped = Vec::new();
        for set in self.tags.chunks_mut(self.geometry.ways()) {
            dropped.extend(set[ways..].iter().filter(|&&tag| tag != EMPTY));
            set[ways..].fill(EMPTY);
        }
        dropped
    }

    /// Searches and writes by ways, after `references` of the design.
    pub fn operations(&self, references: u64) -> Vec<Operations> {
        let mut counted = self.clone();
        counted.count_reads(references);
        let mut all = counted.operations;
        all.sort_by_key(|of| of.ways);
        all
    }

    /// Counts second searches of `times` references, if the array is in use.
    pub fn search_again(&mut self, times: u64) {
        if self.used {
            self.now().reads += times;
        }
    }

    fn count_reads(&mut self, references: u64) {
        if self.used {
            let reads = references - std::mem::replace(&mut self.counted, references);
            self.now().reads += reads;
        }
    }

    fn now(&mut self) -> &mut Operations {
        let ways = self.active as u32;
        let at = self.operations.iter().position(|of| of.ways == ways).unwrap_or_else(|| {
            self.operations.push(Operations { ways, ..Operations::default() });
            self.operations.len() - 1
        });
        &mut self.operations[at]
    }
}

/// The counter of a rank: halving 2^k ways loses the hits of counter k.
#[inline(always)]
fn rank_class(rank: usize) -> usize {
    if rank == 0 { 0 } else { rank.ilog2() as usize + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(entries: u32, ways: u32) -> WayArray {
        WayArray::new(Geometry::new(entries, Some(ways)).unwrap())
    }

    /// Karakostas 2016, figure 5.7: the counters of 8 ways cover the last used entry, the next, the next two, the next
    /// four.
    #[test]
    fn counters_of_ranks_double() {
        let classes = |ways: usize| (0..ways).map(rank_class).collect::<Vec<_>>();
        assert_eq!(classes(2), [0, 1]);
        assert_eq!(classes(4), [0, 1, 2, 2]);
        assert_eq!(classes(8), [0, 1, 2, 2, 3, 3, 3, 3]);
        assert_eq!(array(64, 8).ranks.len(), 4);
        assert_eq!(array(16, 1).ranks.len(), 1);
    }

    /// Section 5.4.2: a 64-entry array of 4 ways becomes one of 32 of 2, or 16 of 1.
    #[test]
    fn the_sets_stay_and_the_latest_survive() {
        let mut array = array(64, 4);
        for page in [16, 32, 48, 64] {
            array.fill(page, page, 0);
        }
        assert_eq!(array.touch(32, 32), Some(2));
        array.set_active(2, 1);
        assert_eq!(array.geometry().sets(), 16);
        let held = [16, 32, 48, 64].map(|page| array.touch(page, page).is_some());
        assert_eq!(held, [false, true, false, true]);
        array.set_active(4, 1);
        assert_eq!(array.touch(16, 16), None, "ways that come back are empty");
    }

    #[test]
    fn reads_count_from_the_first_fill_on_by_ways() {
        let mut array = array(8, 4);
        array.fill(0, 0, 10);
        array.set_active(1, 30);
        let of = |ways, reads, writes| Operations { ways, reads, writes };
        assert_eq!(array.operations(35), [of(1, 5, 0), of(4, 20, 1)]);
    }
}
