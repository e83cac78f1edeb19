//! A second-level array whose entries hold several neighbouring base pages.

use super::memory::SideMemoryView;
use super::spec::Coalesce;
use pagewalk_setassoc::{Geometry, Replacement, SetArray};
use rustc_hash::FxHashMap;

/// One entry for each aligned group of virtual pages: a walk that finds the group's pages elsewhere in memory takes the
/// place of what the group had.
#[derive(Clone, Debug)]
pub(super) struct CoalescedArray {
    rule: Coalesce,
    array: SetArray,
    /// By group: which of its pages the entry has, a bit each.
    pages: FxHashMap<u64, u64>,
}

impl CoalescedArray {
    pub fn new(rule: Coalesce, geometry: Geometry) -> CoalescedArray {
        let array = SetArray::new(geometry, Replacement::Lru)
            .expect("the shape was checked when the machine was read");
        CoalescedArray { rule, array, pages: FxHashMap::default() }
    }

    fn place(&self, page: u64) -> (u64, u64) {
        let pages = u64::from(self.rule.pages());
        (page / pages, 1 << (page % pages))
    }

    /// Whether it has the page, which is then used.
    pub fn touch(&mut self, page: u64) -> bool {
        let (group, bit) = self.place(page);
        let holds = self.pages.get(&group).is_some_and(|pages| pages & bit != 0);
        holds && self.array.touch(group, group)
    }

    /// Takes what a walk read: the page, and what lies in the same cache line and fits.
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

    /// Drops the entries that have some of these pages.
    pub fn remove(&mut self, pages: &std::ops::Range<u64>) {
        let count = u64::from(self.rule.pages());
        let gone = |group: u64| group * count < pages.end && pages.start < (group + 1) * count;
        self.array.remove_where(gone);
        self.pages.retain(|&group, _| !gone(group));
    }
}
