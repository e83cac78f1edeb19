//! Page coloring: pages adjacent in an address space get successive colors.

use super::{Colors, Placement, start_of};

/// The page's number, counted from the process's first color.
#[derive(Clone, Copy)]
pub struct PageColoring;

impl Placement for PageColoring {
    fn name(&self) -> &'static str {
        "page coloring"
    }

    fn color(&mut self, page: u64, process: u32, colors: Colors) -> u64 {
        (page % colors.count + start_of(process, colors)) % colors.count
    }
}
