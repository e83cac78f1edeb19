//! Huge pages everywhere, as if every mapping could have them: a hypothetical extreme.

use super::{FirstTouch, PageSizePolicy, Scope};

/// Always a huge page, which all mappings of a block share.
#[derive(Clone, Copy, Debug)]
pub struct Everything;

impl PageSizePolicy for Everything {
    fn wants_huge(&self, _fault: &FirstTouch<'_>) -> bool {
        true
    }

    fn scope(&self) -> Scope {
        Scope::Block
    }
}
