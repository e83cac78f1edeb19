//! What a software-managed TLB and its handlers did.

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
