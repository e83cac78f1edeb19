//! One mapping on huge pages, the rest as in the baseline: what moving that mapping alone would save.

use super::{FirstTouch, PageSizePolicy, Thp};
use crate::ProcessMapping;

/// Huge pages for one named mapping; the baseline's policy for all others.
#[derive(Clone, Copy, Debug)]
pub struct OneMapping {
    /// The mapping.
    pub mapping: ProcessMapping,
    /// The policy of the others.
    pub rest: Thp,
}

impl PageSizePolicy for OneMapping {
    fn wants_huge(&self, fault: &FirstTouch<'_>) -> bool {
        fault.mapping == self.mapping || self.rest.wants_huge(fault)
    }

    fn is_kernels(&self, fault: &FirstTouch<'_>) -> bool {
        self.rest.wants_huge(fault)
    }

    fn splits(&self, mapping: ProcessMapping) -> bool {
        mapping != self.mapping
    }
}
