//! Software-managed TLBs with mapped page tables: see `pagewalk_translate::software`.

use super::System;
use super::moves::{TlbMove, TlbMoves};
use super::page::Page;
use super::process::TouchedPage;
use super::tlbs::{Entries, Tlbs};
use crate::caches::WalkCost;
use crate::software_keys::{software_key, software_page};
use pagewalk_mm::TlbEntry;
use pagewalk_translate::{Asid, MissClass, RefillRequest, SoftwareMmu};
use pagewalk_units::VirtAddr;

impl Tlbs {
    /// The refill request for a page by the tables of `space`.
    fn wanted(&self, (asid, page): (Asid, Page), (space, vpn): (Asid, u64)) -> RefillRequest {
        let kernel = VirtAddr(vpn << self.machine.paging.base().shift()).is_kernel();
        RefillRequest {
            key: software_key(asid, page.number, page.size),
            asid: space,
            number: page.number,
            base: vpn,
            kernel,
        }
    }

    /// Refills after a miss of `space` if page tables are mapped: the cost of the miss, with the moves of watched TLBs.
    /// `None` on other machines.
    pub fn refill(
        &mut self,
        class: usize,
        (asid, page): (Asid, Page),
        (space, vpn): (Asid, u64),
        now: u64,
    ) -> Option<(WalkCost, TlbMoves)> {
        let wanted = self.wanted((asid, page), (space, vpn));
        let refill = self.software()?.refill(wanted, now);
        self.counts.first_level[class][0] += 1;
        let cost = WalkCost { references: refill.references, cycles: refill.cycles };
        self.counts.charge(class, cost);
        Some((cost, self.replaced(class, asid, page, refill.evicted())))
    }

    /// The moves when a page replaces entries with these keys, if a policy watches.
    fn replaced(&self, class: usize, asid: Asid, page: Page, gone: impl Iterator<Item = u64>) -> TlbMoves {
        let Some(tlb) = self.watched_by(class) else { return TlbMoves::default() };
        let moved =
            |(asid, number, size)| TlbMove { asid, tlb, entry: TlbEntry::of(self.block(number, size)) };
        let entered = vec![moved((asid, page.number, page.size))];
        TlbMoves { entered, left: gone.map(software_page).map(moved).collect() }
    }

    /// Fills a superpage built after a miss in it, if page tables are mapped; `None` on other machines.
    pub fn put(&mut self, class: usize, asid: Asid, page: Page, vpn: u64) -> Option<TlbMoves> {
        let wanted = self.wanted((asid, page), (asid, vpn));
        let mmu = self.software()?;
        if mmu.contains(wanted.key) {
            return Some(TlbMoves::default());
        }
        let gone = mmu.put(wanted);
        Some(self.replaced(class, asid, page, gone.into_iter()))
    }

    /// The software-managed TLB, if page tables are mapped.
    pub fn software(&mut self) -> Option<&mut SoftwareMmu> {
        match &mut self.first.first_mut()?.entries {
            Entries::Software(mmu) => Some(mmu),
            Entries::Array(_) => None,
        }
    }

    /// [`Tlbs::software`] for reading.
    pub fn as_software(&self) -> Option<&SoftwareMmu> {
        match &self.first.first()?.entries {
            Entries::Software(mmu) => Some(mmu),
            Entries::Array(_) => None,
        }
    }
}

impl System {
    /// Traps of software-managed TLBs: first touches of and first stores to the program's own pages.
    pub(super) fn trap(&mut self, vpn: u64, stores: bool, known: Option<TouchedPage>) {
        let class = match known {
            None => MissClass::Invalid,
            Some(touched) if stores && !touched.written => MissClass::Modify,
            Some(_) => return,
        };
        if let Some(touched) = self.process().pages.get_mut(&vpn) {
            touched.written = stores;
        }
        let is_kernels = VirtAddr(vpn << self.machine().paging.base().shift()).is_kernel();
        if let (Some(mmu), false) = (self.tlbs().software(), is_kernels)
            && (class != MissClass::Modify || mmu.spec().system.modify)
        {
            mmu.count(class);
        }
    }
}
