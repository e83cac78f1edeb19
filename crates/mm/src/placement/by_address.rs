//! Page coloring: pages adjacent in an address space get successive colors.

use super::{Colors, Placement};
use pagewalk_units::Draws;

/// The page's number, shifted by a hash of its process, so that equal addresses of several processes do not compete
/// (Romer 1998, section 2.2.2). The first process is not shifted.
#[derive(Clone, Copy)]
pub struct PageColoring;

impl Placement for PageColoring {
    fn boxed(&self) -> Box<dyn Placement> {
        Box::new(*self)
    }

    fn color(&mut self, page: u64, process: u32, colors: Colors) -> u64 {
        let shift = if process == 0 { 0 } else { Draws::new(process.into()).below(colors.count) };
        (page % colors.count + shift) % colors.count
    }
}
