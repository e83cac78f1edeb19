//! A second-level array whose entries hold several adjacent base pages.

use super::memory::SideMemoryView;
use super::spec::Coalesce;
use super::tag::{EntryTag, block_of};
use pagewalk_setassoc::{Geometry, Replacement, SetArray};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// An array with one entry for each aligned group of pages: a walk that finds the group elsewhere in memory replaces
/// its entry.
#[derive(Clone, Debug)]
pub(super) struct CoalescedArray {
    rule: Coalesce,
    array: SetArray,
    /// By group: the pages in its entry, one bit each.
    pages: FxHashMap<u64, u64>,
}

impl CoalescedArray {
    pub fn new(rule: Coalesce, geometry: Geometry) -> CoalescedArray {
        let array = SetArray::new(geometry, Replacement::Lru).expect("MachineSpec checks the shape");
        CoalescedArray { rule, array, pages: FxHashMap::default() }
    }

    fn place(&self, page: u64) -> (u64, u64) {
        let pages = u64::from(self.rule.pages());
        (page / pages, 1 << (page % pages))
    }

    /// Whether it holds the page, which counts as used.
    pub fn touch(&mut self, page: u64) -> bool {
        let (group, bit) = self.place(page);
        let holds = self.pages.get(&group).is_some_and(|pages| pages & bit != 0);
        holds && self.array.touch(group, group)
    }

    /// Fills after a walk: the page, and the others of its cache line that fit. Returns the entry that it replaces, if
    /// that had other pages.
    pub fn fill(&mut self, page: u64, memory: &impl SideMemoryView) -> Option<EntryTag> {
        let (group, _) = self.place(page);
        let pages = self.together(page, memory);
        let gone = self.array.fill(group, group).and_then(|gone| Some((gone, self.pages.remove(&gone)?)));
        let replaced = self.pages.insert(group, pages).map(|replaced| (group, replaced));
        let left = gone.or(replaced).map(|(group, pages)| self.block(group, pages));
        left.filter(|&left| left != self.block(group, pages))
    }

    /// The entry that a fill of the page makes.
    pub fn entry(&self, page: u64, memory: &impl SideMemoryView) -> EntryTag {
        self.block(self.place(page).0, self.together(page, memory))
    }

    /// Whether it has this entry.
    pub fn holds(&self, entry: EntryTag) -> bool {
        let (group, _) = self.place(entry.0);
        self.pages.get(&group).is_some_and(|&pages| self.block(group, pages) == entry)
    }

    /// The entries that a change of these pages drops.
    pub fn dropped(&self, pages: &Range<u64>) -> impl Iterator<Item = EntryTag> + '_ {
        let count = u64::from(self.rule.pages());
        let groups = pages.start / count..pages.end.div_ceil(count);
        let dropped = self.pages.iter().filter(move |(group, _)| groups.contains(group));
        dropped.map(|(&group, &pages)| self.block(group, pages))
    }

    /// The block of a group's entry.
    fn block(&self, group: u64, pages: u64) -> EntryTag {
        let first = group * u64::from(self.rule.pages());
        let (low, high) = (pages.trailing_zeros(), u64::BITS - pages.leading_zeros());
        block_of(first + u64::from(low)..first + u64::from(high))
    }

    fn together(&self, page: u64, memory: &impl SideMemoryView) -> u64 {
        let count = u64::from(self.rule.pages());
        let first = page / count * count;
        let of_page = memory.frame(page);
        let belongs = |other: u64| match (of_page, memory.frame(other)) {
            _ if other == page => true,
            (Some((frame, rights)), Some((its, its_rights))) if its_rights == rights => match self.rule {
                Coalesce::Clustered(_) => its / count == frame / count,
                _ => its.wrapping_sub(other) == frame.wrapping_sub(page),
            },
            _ => false,
        };
        let bit = |other: u64| 1 << (other - first);
        match self.rule {
            Coalesce::Clustered(_) => {
                (first..first + count).filter(|&other| belongs(other)).fold(0, |all, other| all | bit(other))
            }
            _ => {
                let below = (first..page).rev().take_while(|&other| belongs(other));
                let above = (page..first + count).take_while(|&other| belongs(other));
                below.chain(above).fold(0, |all, other| all | bit(other))
            }
        }
    }

    /// Drops entries that overlap these pages.
    pub fn remove(&mut self, pages: &Range<u64>) {
        let count = u64::from(self.rule.pages());
        let gone = pages.start / count..pages.end.div_ceil(count);
        self.array.remove_where(|group| gone.contains(&group));
        self.pages.retain(|group, _| !gone.contains(group));
    }
}
