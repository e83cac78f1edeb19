//! A simulated kernel, which builds superpages of many sizes during the run.
//!
//! [`Kernel`] decides. This module tracks its mappings in the pieces that TLBs hold, and tells which translations its
//! work invalidates.

use super::page::Page;
use crate::fit::{KernelError, held_order};
use crate::looks::ScanTimes;
use pagewalk_mm::{Kernel, ORDERS, Remap, Superpage};
use pagewalk_translate::MachineSpec;
use pagewalk_units::{PageSize, Paging};
use std::collections::BTreeMap;
use std::ops::Range;

/// One process's memory under a simulated kernel.
pub(super) struct OwnMemory {
    pub kernel: Kernel,
    paging: Paging,
    /// By order of the kernel's pages: the order of the pieces that TLBs hold.
    held_order: [u8; ORDERS],
    /// Orders of superpages that TLBs may hold, by first page.
    mapped: BTreeMap<u64, u8>,
    pub looks: ScanTimes,
}

/// A translation that is no longer valid.
#[derive(Clone, Copy, Debug)]
pub(super) struct StaleTranslation {
    pub block: Superpage,
    /// Whether to report its leaving to the kernel's policy.
    pub tell: bool,
}

impl OwnMemory {
    /// `kernel` on a machine.
    pub fn new(mut kernel: Kernel, machine: &MachineSpec) -> Result<OwnMemory, KernelError> {
        let held_order = held_order(&kernel, machine)?;
        kernel.map_hugetlb_by(if machine.has_huge_pages() { machine.paging.huge_order() as u8 } else { 0 });
        Ok(OwnMemory {
            kernel,
            paging: machine.paging,
            held_order,
            mapped: BTreeMap::new(),
            looks: ScanTimes::default(),
        })
    }

    /// The size of a page of an order.
    pub fn size(&self, order: u8) -> PageSize {
        PageSize::from_shift(self.paging.base().shift() + u32::from(order)).unwrap_or(self.paging.base())
    }

    /// What maps a base page.
    pub fn page(&self, vpn: u64) -> Page {
        let order = self.kernel.table().mapped(vpn).map_or(0, |unit| self.held_order[unit.order as usize]);
        let block = Superpage::around(vpn, order);
        if order == 0 || self.mapped.get(&block.first) != Some(&order) {
            return Page::base(vpn, self.paging.base());
        }
        // For sizes between the two that tables have, the entry is repeated for each base page.
        let is_huge = u32::from(order) >= self.paging.huge_order();
        let leaf = if is_huge { self.size(self.paging.huge_order() as u8) } else { self.paging.base() };
        Page { number: block.number(), size: self.size(order), leaf }
    }

    /// Whether a base page is mapped, touched or not.
    pub fn maps(&self, vpn: u64) -> bool {
        self.kernel.table().mapped(vpn).is_some()
    }

    /// Whether a touched page has since been swapped out or dropped.
    pub fn lacks(&self, vpn: u64) -> bool {
        self.kernel.swaps() && !self.kernel.table().is_touched(vpn)
    }

    /// All that TLBs may hold of a block: superpages, then base pages of `held` that no superpage covers.
    pub fn parts(&self, block: Superpage, held: impl Iterator<Item = u64>) -> Vec<Superpage> {
        let of_order = |(&first, &order): (&u64, &u8)| Superpage { first, order };
        let mut parts: Vec<Superpage> = self.mapped.range(block.pages()).map(of_order).collect();
        let covered = |vpn: u64| self.covering(vpn).is_some();
        parts.extend(held.filter(|&vpn| !covered(vpn)).map(|vpn| Superpage::around(vpn, 0)));
        parts
    }

    /// The superpage known to hold a base page.
    fn covering(&self, vpn: u64) -> Option<Superpage> {
        let (&first, &order) = self.mapped.range(..=vpn).next_back()?;
        let block = Superpage { first, order };
        block.pages().contains(&vpn).then_some(block)
    }

    /// Records a mapped superpage.
    pub fn know(&mut self, block: Superpage) {
        let order = self.held_order[block.order as usize];
        if order > 0 {
            self.mapped.extend(block.pages().step_by(1 << order).map(|first| (first, order)));
        }
    }

    /// Forgets the superpages that begin in a range.
    pub fn forget(&mut self, pages: Range<u64>) {
        let left: Vec<u64> = self.mapped.range(pages).map(|(&first, _)| first).collect();
        for first in left {
            self.mapped.remove(&first);
        }
    }

    /// The translation that a decision invalidates.
    pub fn dropped(remap: Remap) -> Option<StaleTranslation> {
        match remap {
            Remap::Mapped(_) => None,
            Remap::Demoted(block) | Remap::Evicted(block) | Remap::Moved(block) => {
                Some(StaleTranslation { block, tell: true })
            }
            Remap::Promoted(block) => Some(StaleTranslation { block, tell: false }),
        }
    }
}
