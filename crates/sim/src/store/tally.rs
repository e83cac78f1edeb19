//! What a page's walks cost.

use crate::attribution::MappingCounts;

/// The walks of the first design that a page caused.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    /// By fetches and by data.
    pub walks: [u64; 2],
    /// Page-table entries that those walks read.
    pub walk_references: u64,
    /// Modelled cycles of those walks.
    pub walk_cycles: u64,
}

impl Tally {
    /// Adds a walk that read so many page-table entries.
    #[inline]
    pub fn add(&mut self, fetch: bool, references: u32, cycles: u64) {
        self.walks[usize::from(!fetch)] += 1;
        self.walk_references += u64::from(references);
        self.walk_cycles = self.walk_cycles.saturating_add(cycles);
    }

    /// Adds these walks to their mapping's counts.
    pub fn add_to(&self, counts: &mut MappingCounts) {
        counts.walks_fetch += self.walks[0];
        counts.walks_data += self.walks[1];
        counts.walk_references += self.walk_references;
        counts.walk_cycles = counts.walk_cycles.saturating_add(self.walk_cycles);
    }
}
