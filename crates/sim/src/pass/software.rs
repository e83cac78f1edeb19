//! Software-managed TLBs with mapped page tables: their traps that depend on pages alone, and their counts.
//!
//! The first level of such a design is a [`SoftwareMmu`](pagewalk_translate::SoftwareMmu), used at misses like any
//! other. Page faults and first stores trap whatever it holds. A page's first store always reaches the pass, because
//! the front takes stores only to pages that have had one.

use crate::attribution::Observer;
use crate::bits::bits;
use crate::counts::SoftwareTotals;
use crate::design::Design;
use crate::pass::Pass;
use pagewalk_translate::MissClass;

impl<O: Observer> Pass<O> {
    /// A store, or a reference to a `new` page. Kernel pages never trap.
    pub(crate) fn trap(&mut self, stores: bool, page: u32, new: bool) {
        let written = &mut self.store.written[page as usize];
        let class = match new {
            true => MissClass::Invalid,
            false if stores && !*written => MissClass::Modify,
            false => return,
        };
        *written = stores;
        if self.store.address(self.store.pages[page as usize].vpn).is_kernel() {
            return;
        }
        for design in bits(self.sets.mapped & self.sets.active) {
            self.designs[design].trapped(class);
        }
    }
}

impl Design {
    fn trapped(&mut self, class: MissClass) {
        if let Some(mmu) = self.first[0].software()
            && (class != MissClass::Modify || mmu.spec().system.modify)
        {
            mmu.count(class);
        }
    }

    /// Counts of a software-managed TLB, if it has one.
    pub(crate) fn software_totals(&self) -> Option<SoftwareTotals> {
        SoftwareTotals::of(self.first.first()?.as_software())
    }
}
