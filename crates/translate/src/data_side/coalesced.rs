//! A second-level array whose entries hold several adjacent base pages.

use super::memory::SideMemoryView;
use super::spec::Coalesce;
use pagewalk_setassoc::{Geometry, Replacement, SetArray};
use rustc_hash::FxHashMap;

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

    /// Fills after a walk: the page, and the others of its cache line that fit.
    pub fn fill(&mut self, page: u64, memory: &impl SideMemoryView) {
        let (group, _) = self.place(page);
        let pages = self.together(page, memory);
        if let Some(gone) = self.array.fill(group, group) {
            self.pages.remove(&gone);
        }
        self.pages.insert(group, pages);
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
    pub fn remove(&mut self, pages: &std::ops::Range<u64>) {
        let count = u64::from(self.rule.pages());
        let gone = |group: u64| group * count < pages.end && pages.start < (group + 1) * count;
        self.array.remove_where(gone);
        self.pages.retain(|&group, _| !gone(group));
    }
}
