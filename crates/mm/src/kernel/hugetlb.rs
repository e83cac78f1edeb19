//! Memory of hugetlb: on pages that the program has chosen itself, whatever the policy wants.

use super::{Account, Kernel, ORDERS, Remap};
use crate::{AddressSpace, Superpage, Vma};
use pagewalk_units::PageSize;
use std::ops::Range;

/// log2 of the bytes of the pages, unless [`Kernel::map_hugetlb_by`] says otherwise.
const USUAL_SHIFT: u32 = 21;

/// The order that those have.
pub(super) fn usual_order(base: PageSize) -> u8 {
    USUAL_SHIFT.saturating_sub(base.shift()) as u8
}

impl Kernel {
    /// Says, before anything else, by pages of which order memory of hugetlb is mapped: the machine's huge page, or
    /// 0 where
    /// it has none, and base pages have to do. Pages of hugetlb that are larger are mapped piece by piece; those that
    /// are smaller, by base pages.
    pub fn map_hugetlb_by(&mut self, order: u8) {
        self.hugetlb = if usize::from(order) < ORDERS { order } else { 0 };
    }

    /// The order that [`Kernel::map_hugetlb_by`] says.
    pub fn hugetlb_order(&self) -> u8 {
        self.hugetlb
    }

    /// The page of hugetlb around a base page, if there is one, or the part of it that is mapped as one.
    pub(super) fn hugetlb_page(&self, page: u64, space: &AddressSpace) -> Option<Superpage> {
        let block = Superpage::around(page, self.hugetlb);
        let Range { start, end } = block.pages();
        let bytes = start << self.base.shift()..end << self.base.shift();
        let area = self.area(Superpage::around(page, 0), space)?;
        (self.hugetlb > 0 && area.holds_of_hugetlb(&bytes)).then_some(block)
    }

    /// First touch of a page of hugetlb, if it is one. Its frames were set aside before the program began: they are
    /// none
    /// of the physical memory.
    pub(super) fn hugetlb_fault(&mut self, page: u64, space: &AddressSpace, remaps: &mut Vec<Remap>) -> bool {
        let block = self.hugetlb_page(page, space).filter(|&block| self.table.backed_in(block) == 0);
        let Some(block) = block else { return false };
        self.counts.faults += 1;
        self.table.map(block);
        remaps.push(Remap::Mapped(block));
        self.accounts.charge(Account::Fault, self.costs.fault);
        self.accounts.charge(Account::Zero, self.cycles(self.costs.zero_per_kib, block.len()));
        true
    }

    /// A copy of a page of hugetlb, which stays one.
    pub(super) fn copy_hugetlb(&mut self, unit: Superpage, remaps: &mut Vec<Remap>) {
        self.table.map(unit);
        self.counts.copies_on_write += 1;
        self.accounts.charge(Account::Copy, self.cycles(self.costs.copy_backed_per_kib, unit.len()));
        remaps.push(Remap::Moved(unit));
        self.note_peaks();
    }

    /// Whether a unit is a page of hugetlb.
    pub(super) fn is_hugetlb(&self, unit: Superpage, space: &AddressSpace) -> bool {
        self.area(unit, space).is_some_and(Vma::is_hugetlb)
    }
}
