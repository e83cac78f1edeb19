//! Huge pages everywhere, as if every mapping could have them: hypothetical, and the far end of the range.

use super::{Fault, PageSizePolicy, Scope};

/// Always a huge page, shared by all mappings of a block.
#[derive(Clone, Copy, Debug)]
pub struct Everything;

impl PageSizePolicy for Everything {
    fn wants_huge(&self, _fault: &Fault<'_>) -> bool {
        true
    }

    fn scope(&self) -> Scope {
        Scope::Block
    }
}
