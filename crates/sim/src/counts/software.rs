//! Counts of a software-managed TLB and its handlers.

use pagewalk_translate::{MissClass, SoftwareCounts, SoftwareMmu};

/// Counts of a software-managed TLB and its handlers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SoftwareTotals {
    /// The operating system that provides the handlers.
    pub system: String,
    /// Misses and their cycles by class.
    pub counts: SoftwareCounts,
    /// A class with misses but no price: all sums lack its cycles.
    pub unpriced: Option<MissClass>,
    /// Slots below the partition at the end.
    pub lower: u32,
    /// The instruction of each move of the partition and the slots below it from then on, the start first; empty if it
    /// does not move.
    pub moves: Vec<(u64, u32)>,
}

impl SoftwareTotals {
    /// The counts of a TLB, if it is software-managed.
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

    /// Adds another core's counts, but not its partition's moves: each core has its own partition.
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

    /// Slots below the partition, averaged over `instructions`.
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
