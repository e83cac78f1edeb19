//! A page TLB of level 2, of any kind of entries.

use super::anchored::AnchoredArray;
use super::coalesced::CoalescedArray;
use super::memory::SideMemoryView;
use super::tag::tag;
use crate::Asid;
use pagewalk_setassoc::SetArray;

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

    /// Fills after a walk: a page of its size, or coalesced base pages. Returns the victim's tag, if entries are pages.
    pub fn fill(
        &mut self,
        page: u64,
        mapped: u32,
        largest: u32,
        memory: &mut impl SideMemoryView,
    ) -> Option<u64> {
        let victim = match &mut self.entries {
            Entries::Coalesced(array) if mapped == 0 => {
                array.fill(page, memory);
                None
            }
            Entries::Anchored(array) if self.shifts.contains(&mapped) => {
                array.fill(page, mapped, memory);
                None
            }
            Entries::Coalesced(_) | Entries::Anchored(_) => return None,
            Entries::Pages(array) => {
                let fits = |&&shift: &&u32| if mapped > 0 { shift == mapped } else { shift <= largest };
                let &shift = self.shifts.iter().rev().find(fits)?;
                array.fill(Asid::number_of(page) >> shift, tag(page, shift))
            }
        };
        self.writes += 1;
        victim
    }
}
