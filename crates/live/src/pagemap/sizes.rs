//! Counts TLB entries by size, and how few of them cover a share of the memory.

use std::collections::BTreeMap;

/// Sizes up to this are kept in an array: everything except ranges.
const SMALL: usize = 512;

/// Numbers of entries by pages per entry. Entries of one design do not overlap: each page is in exactly one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// By size; empty until the first entry.
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

    /// Adds a run of pages, divided into one entry per aligned group.
    pub fn add_groups(&mut self, first: u64, pages: u64, group: u64) {
        let head = (first.wrapping_neg() % group).min(pages);
        let rest = pages - head;
        self.add(head, 1);
        self.add(group, rest / group);
        self.add(rest % group, 1);
    }

    /// Sizes with their numbers of entries, ascending.
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
    /// Those are the largest: entries do not overlap, so their sizes add up, and no N entries have a larger sum than
    /// the N largest.
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
        /// Tries all choices: none with fewer entries maps as much.
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

        /// Checks page by page.
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
