//! Counts that change at misses only.

use crate::caches::WalkCost;
use crate::classes::{CLASSES, FETCH};
use crate::sizes::SIZES;

/// Counts that change at misses only.
#[derive(Clone, Debug, Default)]
pub(crate) struct MissCounts {
    /// First-level misses by class and page size.
    pub first_level: [[u64; SIZES]; CLASSES],
    /// First-level misses that hit a lower level or a prefetch buffer.
    pub lower_hits: u64,
    /// Walks by fetches and by data.
    pub walks: [u64; 2],
    /// Page-table entries read.
    pub walk_references: u64,
    /// Modelled cycles of walks.
    pub walk_cycles: u64,
    /// Second halves of references that cross base pages inside one huge page: they need no lookup.
    pub inside_huge: [u64; CLASSES],
}

impl MissCounts {
    /// Counts a walk.
    pub fn charge(&mut self, class: usize, walk: WalkCost) {
        self.walks[usize::from(class != FETCH)] += 1;
        self.walk_references += u64::from(walk.references);
        self.walk_cycles = self.walk_cycles.saturating_add(walk.cycles);
    }
}
