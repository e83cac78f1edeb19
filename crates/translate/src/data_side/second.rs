//! A page TLB of level 2, of any kind of entries.

use super::anchored::AnchoredArray;
use super::coalesced::CoalescedArray;
use super::memory::SideMemoryView;
use super::tag::{EntryTag, held, lies_in, tag};
use crate::Asid;
use pagewalk_setassoc::SetArray;
use std::ops::Range;

/// A page TLB of level 2.
#[derive(Clone, Debug)]
pub(super) struct SecondLevel {
    pub entries: Entries,
    /// Its page sizes, as doublings of a base page.
    pub shifts: Vec<u32>,
    /// Whether all cores share it.
    pub shared: bool,
    pub hits: u64,
    pub writes: u64,
}

/// What a walk found, as doublings of a base page: the size of the page, and the largest that is mapped together.
#[derive(Clone, Copy)]
pub(super) struct FillSizes {
    pub mapped: u32,
    pub largest: u32,
}

#[derive(Clone, Debug)]
pub(super) enum Entries {
    Pages(SetArray),
    Coalesced(CoalescedArray),
    Anchored(AnchoredArray),
}

impl SecondLevel {
    /// Its anchors, if it has some.
    pub fn anchored(&self) -> Option<&AnchoredArray> {
        match &self.entries {
            Entries::Anchored(array) => Some(array),
            _ => None,
        }
    }

    /// [`SecondLevel::anchored`] for changes.
    pub fn anchored_mut(&mut self) -> Option<&mut AnchoredArray> {
        match &mut self.entries {
            Entries::Anchored(array) => Some(array),
            _ => None,
        }
    }

    /// The largest entry around a page, which counts as used.
    pub fn touch(&mut self, page: u64) -> Option<u32> {
        match &mut self.entries {
            Entries::Coalesced(array) => array.touch(page).then_some(0),
            Entries::Anchored(array) => array.touch(page),
            Entries::Pages(array) => {
                let number = Asid::number_of(page);
                self.shifts
                    .iter()
                    .rev()
                    .copied()
                    .find(|&shift| array.touch(number >> shift, tag(page, shift)))
            }
        }
    }

    /// Fills after a walk: a page of its size, or coalesced base pages. Returns the entry that it replaces.
    pub fn fill(
        &mut self,
        page: u64,
        sizes: FillSizes,
        memory: &mut impl SideMemoryView,
    ) -> Option<EntryTag> {
        let shift = self.takes(sizes)?;
        self.writes += 1;
        match &mut self.entries {
            Entries::Coalesced(array) => array.fill(page, memory),
            Entries::Anchored(array) => array.fill(page, shift, memory),
            Entries::Pages(array) => array.fill(Asid::number_of(page) >> shift, tag(page, shift)).map(held),
        }
    }

    /// The doublings of the page that a fill enters, if it takes such pages.
    fn takes(&self, FillSizes { mapped, largest }: FillSizes) -> Option<u32> {
        let fits = |&&shift: &&u32| if mapped > 0 { shift == mapped } else { shift <= largest };
        match &self.entries {
            Entries::Coalesced(_) => (mapped == 0).then_some(0),
            Entries::Anchored(_) => self.shifts.contains(&mapped).then_some(mapped),
            Entries::Pages(_) => self.shifts.iter().rev().find(fits).copied(),
        }
    }

    /// The entry that a fill of the page makes.
    pub fn entry(&self, page: u64, sizes: FillSizes, memory: &mut impl SideMemoryView) -> Option<EntryTag> {
        let shift = self.takes(sizes)?;
        Some(match &self.entries {
            Entries::Coalesced(array) => array.entry(page, memory),
            Entries::Anchored(array) => array.entry(page, shift, memory),
            Entries::Pages(_) => (page >> shift << shift, shift),
        })
    }

    /// Whether it has this entry.
    pub fn holds(&self, entry: EntryTag) -> bool {
        let (page, shift) = entry;
        match &self.entries {
            Entries::Coalesced(array) => array.holds(entry),
            Entries::Anchored(array) => array.holds(entry),
            Entries::Pages(array) => array.contains(Asid::number_of(page) >> shift, tag(page, shift)),
        }
    }

    /// The entries that a change of these pages drops.
    pub fn dropped(&self, pages: &Range<u64>) -> Vec<EntryTag> {
        match &self.entries {
            Entries::Coalesced(array) => array.dropped(pages).collect(),
            Entries::Anchored(array) => array.dropped(pages).collect(),
            Entries::Pages(array) => array.keys().filter(|&tag| lies_in(tag, pages)).map(held).collect(),
        }
    }

    /// Drops entries that these pages change.
    pub fn remove(&mut self, pages: &Range<u64>) {
        match &mut self.entries {
            Entries::Pages(array) => array.remove_where(|tag| lies_in(tag, pages)),
            Entries::Coalesced(array) => array.remove(pages),
            Entries::Anchored(array) => array.remove(pages),
        }
    }
}
