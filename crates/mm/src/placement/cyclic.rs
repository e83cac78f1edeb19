//! Bin hopping: pages touched one after the other get successive colors.

use super::{Colors, Placement, start_of};

/// Colors in turn, in the order of a process's first touches, from its first color on (Kessler and Hill 1992; Romer
/// 1998, section 2.2.2).
#[derive(Clone, Copy, Default)]
pub struct BinHopping {
    next: u64,
}

impl Placement for BinHopping {
    fn name(&self) -> &'static str {
        "bin hopping"
    }

    fn color(&mut self, _page: u64, process: u32, colors: Colors) -> u64 {
        let color = (self.next + start_of(process, colors)) % colors.count;
        self.next += 1;
        color
    }
}
