//! FIXED: all pages of one size (Romer 1998, section 3.1).

use super::{Policy, Rules};
use crate::Vma;

/// Pages of one size, even across areas. Every touched block takes its memory.
#[derive(Clone, Debug)]
pub struct Fixed {
    /// The size, as an order.
    pub order: u8,
}

impl Policy for Fixed {
    fn rules(&self) -> Rules {
        Rules { ignores_areas: true, ..Rules::new(1 << self.order) }
    }

    fn fault_orders(&self, _page: u64, _area: Option<&Vma>) -> u32 {
        1 << self.order
    }
}
