//! Hugetlb memory: its pages are the program's own choice, whatever the policy.

use super::{Account, Kernel, ORDERS, Remap};
use crate::promotion::PolicyEvent;
use crate::{AddressSpace, Superpage, Vma};
use pagewalk_units::PageSize;
use std::ops::Range;

/// log2 of the bytes of hugetlb pages, unless [`Kernel::map_hugetlb_by`] changes it.
const USUAL_SHIFT: u32 = 21;

/// The order of such pages.
pub(super) fn usual_order(base: PageSize) -> u8 {
    USUAL_SHIFT.saturating_sub(base.shift()) as u8
}

impl Kernel {
    /// Sets the order of the pages that map hugetlb memory, before anything else: the machine's huge page, or 0 if it
    /// has none, for base pages. Larger hugetlb pages are mapped in pieces, smaller ones by base pages.
    pub fn map_hugetlb_by(&mut self, order: u8) {
        self.hugetlb = if usize::from(order) < ORDERS { order } else { 0 };
    }

    /// The order of the pages that map hugetlb memory.
    pub fn hugetlb_order(&self) -> u8 {
        self.hugetlb
    }

    /// The hugetlb page around a base page, if there is one, or the piece of it that is mapped as one page.
    pub(super) fn hugetlb_page(&self, page: u64, space: &AddressSpace) -> Option<Superpage> {
        let block = Superpage::around(page, self.hugetlb);
        let Range { start, end } = block.pages();
        let bytes = start << self.base.shift()..end << self.base.shift();
        let area = self.area(Superpage::around(page, 0), space)?;
        (self.hugetlb > 0 && area.holds_of_hugetlb(&bytes)).then_some(block)
    }

    /// First touch of a hugetlb page; false if it is none. Its frames were reserved before the program began and are
    /// not part of the physical memory.
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

    /// Copies a hugetlb page.
    pub(super) fn copy_hugetlb(&mut self, unit: Superpage, remaps: &mut Vec<Remap>) {
        self.displace(unit);
        self.table.map(unit);
        self.policy.tell(PolicyEvent::Moved(unit));
        self.counts.copies_on_write += 1;
        self.accounts.charge(Account::Copy, self.cycles(self.costs.copy_backed_per_kib, unit.len()));
        remaps.push(Remap::Moved(unit));
        self.note_peaks();
    }

    /// Whether a unit is a hugetlb page.
    pub(super) fn is_hugetlb(&self, unit: Superpage, space: &AddressSpace) -> bool {
        self.area(unit, space).is_some_and(Vma::is_hugetlb)
    }
}
