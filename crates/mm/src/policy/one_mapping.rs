//! One mapping on huge pages, the rest as in the baseline: what moving that mapping alone would save.

use super::{FirstTouch, PageSizePolicy, Thp};
use crate::MappingId;

/// Huge pages for one named mapping; the baseline's policy for all others.
#[derive(Clone, Copy, Debug)]
pub struct OneMapping {
    /// The mapping.
    pub mapping: MappingId,
    /// The policy of the others.
    pub rest: Thp,
}

impl PageSizePolicy for OneMapping {
    fn wants_huge(&self, fault: &FirstTouch<'_>) -> bool {
        fault.mapping == self.mapping || self.rest.wants_huge(fault)
    }

    fn splits(&self, mapping: MappingId) -> bool {
        mapping != self.mapping
    }
}
