//! Mapped address ranges.

use std::collections::BTreeMap;

/// Disjoint ranges of addresses, each executable or not.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    /// End and executability by start.
    ranges: BTreeMap<u64, (u64, bool)>,
}

impl Ranges {
    /// Maps `start..end`, replacing what was there.
    pub fn insert(&mut self, start: u64, end: u64, executable: bool) {
        self.remove(start, end);
        if start < end {
            self.ranges.insert(start, (end, executable));
        }
    }

    /// Unmaps `start..end`. Returns whether all of it was mapped.
    pub fn remove(&mut self, start: u64, end: u64) -> bool {
        let whole = self.covers(start, end, false);
        let overlapping: Vec<u64> = self.overlapping(start, end).map(|(first, _, _)| first).collect();
        for first in overlapping {
            let Some((last, executable)) = self.ranges.remove(&first) else { continue };
            if first < start {
                self.ranges.insert(first, (start, executable));
            }
            if last > end {
                self.ranges.insert(end, (last, executable));
            }
        }
        whole
    }

    /// Sets whether the mapped parts of `start..end` are executable. Returns whether all of it was mapped.
    pub fn protect(&mut self, start: u64, end: u64, executable: bool) -> bool {
        let parts: Vec<_> =
            self.overlapping(start, end).map(|(first, last, _)| (first.max(start), last.min(end))).collect();
        let whole = self.covers(start, end, false);
        for (first, last) in parts {
            self.insert(first, last, executable);
        }
        whole
    }

    /// Whether all of `start..end` is mapped, and executable if `executable`.
    pub fn covers(&self, start: u64, end: u64, executable: bool) -> bool {
        let mut reached = start;
        for (first, last, is_executable) in self.overlapping(start, end) {
            if first > reached || (executable && !is_executable) {
                return false;
            }
            reached = last;
        }
        reached >= end
    }

    /// The range around `address`, without neighbours.
    pub fn around(&self, address: u64) -> Option<(u64, u64)> {
        self.overlapping(address, address.saturating_add(1)).next().map(|(first, last, _)| (first, last))
    }

    /// Whether nothing is mapped.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    fn overlapping(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64, bool)> {
        let before = self.ranges.range(..=start).next_back().map_or(start, |(&first, _)| first);
        let ranges = self.ranges.range(before..end.max(before));
        let overlaps = move |&(_, last, _): &(u64, u64, bool)| last > start;
        ranges.map(|(&first, &(last, executable))| (first, last, executable)).filter(overlaps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_do_what_a_vector_of_pages_does(
            changes in prop::collection::vec((0..3u8, 0..40u64, 0..12u64, any::<bool>()), 0..40),
        ) {
            let mut ranges = Ranges::default();
            let mut pages = [None; 64];
            for (change, start, length, executable) in changes {
                let (end, slots) = (start + length, start as usize..(start + length) as usize);
                let whole = pages[slots.clone()].iter().all(Option::is_some);
                match change {
                    0 => {
                        ranges.insert(start, end, executable);
                        pages[slots].fill(Some(executable));
                    }
                    1 => {
                        prop_assert_eq!(ranges.remove(start, end), whole);
                        pages[slots].fill(None);
                    }
                    _ => {
                        prop_assert_eq!(ranges.protect(start, end, executable), whole);
                        pages[slots].iter_mut().flatten().for_each(|page| *page = executable);
                    }
                }
                for page in 0..63usize {
                    let address = page as u64;
                    prop_assert_eq!(ranges.covers(address, address + 1, true), pages[page] == Some(true));
                    let both = pages[page].is_some() && pages[page + 1].is_some();
                    prop_assert_eq!(ranges.covers(address, address + 2, false), both);
                    prop_assert_eq!(ranges.around(address).is_some(), pages[page].is_some());
                }
                prop_assert_eq!(ranges.is_empty(), pages.iter().all(Option::is_none));
            }
        }
    }
}
