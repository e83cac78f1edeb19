//! A page TLB of level 2, by what an entry holds.

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
    /// What it holds, as doublings of a base page.
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

    /// The same, to be changed.
    pub fn anchored_mut(&mut self) -> Option<&mut AnchoredArray> {
        match &mut self.entries {
            Entries::Anchored(array) => Some(array),
            _ => None,
        }
    }

    /// The largest page that it has around this one, which is then used.
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

    /// Takes what a walk found: pages of their size, base pages together where it coalesces. Returns the tag of the
    /// page that gave way, where entries are pages.
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
