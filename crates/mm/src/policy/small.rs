//! Base pages everywhere.

use super::{FirstTouch, PageSizePolicy};

/// Never a huge page.
#[derive(Clone, Copy, Debug)]
pub struct Small;

impl PageSizePolicy for Small {
    fn wants_huge(&self, _fault: &FirstTouch<'_>) -> bool {
        false
    }

    fn may_be_huge(&self) -> bool {
        false
    }
}
