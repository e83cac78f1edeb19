//! How many TLB entries there are of each size, and how few of them cover a share of the memory.

use std::collections::BTreeMap;

/// Sizes up to this stand in an array: all but ranges are that small.
const SMALL: usize = 512;

/// Entries by the pages that each maps. Entries of one design never overlap: each page is in exactly one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// By size; empty until the first is added.
    small: Vec<u64>,
    large: BTreeMap<u64, u64>,
}

impl Sizes {
    /// No entries.
    pub fn new() -> Sizes {
        Sizes::default()
    }

    /// Adds `count` entries of `pages` pages each.
    #[inline]
    pub fn add(&mut self, pages: u64, count: u64) {
        if pages == 0 || count == 0 {
            return;
        }
        if pages <= SMALL as u64 {
            if self.small.is_empty() {
                self.small = vec![0; SMALL + 1];
            }
            self.small[pages as usize] += count;
        } else {
            *self.large.entry(pages).or_default() += count;
        }
    }

    /// Adds what a run of pages is in entries that each map the pages of one aligned group.
    pub fn add_groups(&mut self, first: u64, pages: u64, group: u64) {
        let head = (first.wrapping_neg() % group).min(pages);
        let rest = pages - head;
        self.add(head, 1);
        self.add(group, rest / group);
        self.add(rest % group, 1);
    }

    /// Sizes with their numbers of entries, the smallest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> + '_ {
        let small = self.small.iter().enumerate().filter(|&(_, &count)| count > 0);
        let large = self.large.iter().map(|(&pages, &count)| (pages, count));
        small.map(|(pages, &count)| (pages as u64, count)).chain(large)
    }

    /// All entries.
    pub fn entries(&self) -> u64 {
        self.iter().map(|(_, count)| count).sum()
    }

    /// All pages.
    pub fn pages(&self) -> u64 {
        self.iter().map(|(pages, count)| pages * count).sum()
    }

    /// Pages of the largest entry; 0 if there is none.
    pub fn largest(&self) -> u64 {
        self.iter().next_back().map_or(0, |(pages, _)| pages)
    }

    /// The fewest entries that map at least `percent` of all pages.
    ///
    /// They are the largest: no entry's pages are another's, so what entries map together is the sum of their sizes,
    /// and no N entries have a larger sum than the N largest. If fewer were enough, as many of the largest would be.
    pub fn covering(&self, percent: u32) -> u64 {
        let wanted = u128::from(self.pages()) * u128::from(percent);
        let mut wanted = u64::try_from(wanted.div_ceil(100)).unwrap_or(u64::MAX);
        let mut entries = 0;
        for (pages, count) in self.iter().rev() {
            let taken = count.min(wanted.div_ceil(pages));
            entries += taken;
            wanted = wanted.saturating_sub(taken * pages);
        }
        entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(entries: &[u64]) -> Sizes {
        let mut sizes = Sizes::new();
        entries.iter().for_each(|&pages| sizes.add(pages, 1));
        sizes
    }

    #[test]
    fn the_largest_come_first() {
        let sizes = of(&[1, 1, 8, 600, 8, 1]);
        assert_eq!((sizes.entries(), sizes.pages(), sizes.largest()), (6, 619, 600));
        assert_eq!(sizes.iter().collect::<Vec<_>>(), [(1, 3), (8, 2), (600, 1)]);
        assert_eq!([0, 80, 97, 98, 99, 100].map(|percent| sizes.covering(percent)), [0, 1, 2, 2, 3, 6]);
        assert_eq!(Sizes::new().covering(99), 0);
    }

    #[test]
    fn a_run_begins_and_ends_within_groups() {
        let cut = |first, pages| {
            let mut sizes = Sizes::new();
            sizes.add_groups(first, pages, 8);
            sizes.iter().collect::<Vec<_>>()
        };
        assert_eq!(cut(0, 16), [(8, 2)]);
        assert_eq!(cut(6, 13), [(2, 1), (3, 1), (8, 1)]);
        assert_eq!(cut(3, 2), [(2, 1)]);
    }

    proptest! {
        /// No choice of fewer entries maps as much: all choices are tried.
        #[test]
        fn no_fewer_are_enough(entries in prop::collection::vec(1u64..700, 1..10), percent in 0u32..=100) {
            let sizes = of(&entries);
            let least = (0u32..1 << entries.len())
                .filter(|chosen| {
                    let mapped = entries.iter().enumerate().filter(|&(i, _)| chosen >> i & 1 == 1);
                    mapped.map(|(_, pages)| pages).sum::<u64>() * 100 >= sizes.pages() * u64::from(percent)
                })
                .map(u32::count_ones)
                .min();
            prop_assert_eq!(Some(sizes.covering(percent)), least.map(u64::from));
        }

        /// Page by page, each page asked for its group.
        #[test]
        fn groups_are_those_of_the_pages(first in 0u64..100, pages in 0u64..2000, log_group in 1u32..10) {
            let group = 1 << log_group;
            let mut by_group = BTreeMap::new();
            (first..first + pages).for_each(|page| *by_group.entry(page / group).or_insert(0u64) += 1);
            let mut sizes = Sizes::new();
            sizes.add_groups(first, pages, group);
            prop_assert_eq!(sizes, of(&by_group.into_values().collect::<Vec<_>>()));
        }
    }
}
