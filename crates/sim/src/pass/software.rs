//! Software-managed TLBs whose page tables are mapped: what of them depends on pages alone, and their counts.
//!
//! The first level of such a design is a [`SoftwareMmu`](pagewalk_translate::SoftwareMmu), asked at misses as any other
//! is. Page faults and first stores trap whatever it holds. A page's first store always comes to the pass: the front
//! takes stores only to pages that one has come to before.

use crate::attribution::WalkObserver;
use crate::bits::bits;
use crate::design::Design;
use crate::pass::Pass;
use pagewalk_translate::{MissClass, SoftwareCounts, SoftwareMmu};

/// What a software-managed TLB and its handlers did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SoftwareTotals {
    /// The operating system whose handlers were charged.
    pub system: String,
    /// Misses and their cycles by class.
    pub counts: SoftwareCounts,
    /// A class that occurred and has no price: its cycles are missing from all sums.
    pub unpriced: Option<MissClass>,
    /// Slots below the partition in the end.
    pub lower: u32,
    /// Instructions at which the partition moved, and the slots below it from then on, the start first; empty where it
    /// does not move.
    pub moves: Vec<(u64, u32)>,
}

impl SoftwareTotals {
    /// Adds those of another core, whose partition moves by itself: where it went is told of one core alone.
    pub(crate) fn add(&mut self, other: &SoftwareTotals) {
        self.counts.add(&other.counts);
        self.unpriced = self.unpriced.or(other.unpriced);
        self.moves.clear();
    }

    /// Cycles of the traps that depend on no TLB.
    pub fn trap_cycles(&self) -> u64 {
        let of = |class: MissClass| self.counts.cycles[class as usize];
        of(MissClass::Modify).saturating_add(of(MissClass::Invalid))
    }

    /// Slots below the partition on average over so many instructions.
    pub fn mean_lower(&self, instructions: u64) -> f64 {
        let ends = self.moves.iter().skip(1).map(|&(at, _)| at).chain([instructions]);
        let held = self
            .moves
            .iter()
            .zip(ends)
            .map(|(&(from, lower), to)| to.saturating_sub(from) as f64 * f64::from(lower));
        if self.moves.is_empty() || instructions == 0 {
            return f64::from(self.lower);
        }
        held.sum::<f64>() / instructions as f64
    }
}

impl<O: WalkObserver> Pass<O> {
    /// A reference to a page that is `new`, or a store. Pages of the kernel trap never.
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
        for design in bits(self.mapped & self.active) {
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

impl SoftwareTotals {
    /// Those of a TLB, if it is one.
    pub(crate) fn of(mmu: Option<&SoftwareMmu>) -> Option<SoftwareTotals> {
        let mmu = mmu?;
        Some(SoftwareTotals {
            system: mmu.spec().system.name.clone(),
            counts: *mmu.counts(),
            unpriced: mmu.counts().unpriced(mmu.spec()),
            lower: mmu.lower(),
            moves: mmu.moves().to_vec(),
        })
    }
}
