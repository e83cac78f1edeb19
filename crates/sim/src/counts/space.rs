//! Counts of a part of a run.

use std::ops::AddAssign;

/// Counts of a part of a run, such as an address space, on the first machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceCounts {
    /// Instructions executed.
    pub instructions: u64,
    /// Data references.
    pub data_references: u64,
    /// Base pages touched.
    pub pages_touched: u64,
    /// Walks by fetches.
    pub walks_fetch: u64,
    /// Walks by data references.
    pub walks_data: u64,
    /// Modelled cycles of those walks.
    pub walk_cycles: u64,
}

impl SpaceCounts {
    /// The difference to the earlier counts `before`.
    pub(crate) fn since(&self, before: &SpaceCounts) -> SpaceCounts {
        SpaceCounts {
            instructions: self.instructions - before.instructions,
            data_references: self.data_references - before.data_references,
            pages_touched: self.pages_touched - before.pages_touched,
            walks_fetch: self.walks_fetch - before.walks_fetch,
            walks_data: self.walks_data - before.walks_data,
            walk_cycles: self.walk_cycles - before.walk_cycles,
        }
    }
}

impl AddAssign for SpaceCounts {
    fn add_assign(&mut self, other: SpaceCounts) {
        self.instructions += other.instructions;
        self.data_references += other.data_references;
        self.pages_touched += other.pages_touched;
        self.walks_fetch += other.walks_fetch;
        self.walks_data += other.walks_data;
        self.walk_cycles = self.walk_cycles.saturating_add(other.walk_cycles);
    }
}
