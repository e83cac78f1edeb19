//! Placement: the color of the frame that a page gets at its first touch. One file each.
//!
//! A physically indexed cache splits into *colors*, its page-sized slices. Pages whose frames have the same color
//! compete for the same sets (Kessler and Hill, "Page Placement Algorithms for Large Real-Indexed Caches", ACM TOCS 10
//! (4), 1992; Romer 1998, section 2.2.2).

mod by_address;
mod careful;
mod cyclic;
mod frame_list;
mod known_frames;
mod random;

pub use by_address::PageColoring;
pub use careful::Careful;
pub use cyclic::BinHopping;
pub use frame_list::{FrameList, FrameListError, FrameRun};
pub use known_frames::Listed;
pub use random::RandomColors;

use crate::Superpage;
use crate::frames::Frame;
use pagewalk_units::Draws;

/// The colors of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Colors {
    /// Their number.
    pub count: u64,
    /// Lines of a base page.
    pub lines_per_page: u64,
}

impl Default for Colors {
    /// Those of a cache that is not known yet: one color.
    fn default() -> Colors {
        Colors { count: 1, lines_per_page: 1 }
    }
}

impl Colors {
    /// The color of a frame.
    pub fn of(self, frame: Frame) -> u64 {
        frame.0 % self.count
    }
}

/// The color from which a process counts, so that equal addresses or first touches of several processes do not compete
/// (Romer 1998, section 2.2.2: a hash). That of the first process is 0.
fn start_of(process: u32, colors: Colors) -> u64 {
    if process == 0 { 0 } else { Draws::new(process.into()).below(colors.count) }
}

/// A policy of placement.
pub trait Placement: PlacementCopy + Send + Sync {
    /// Its name for people.
    fn name(&self) -> &'static str;

    /// The color for a base page at its first touch. `process`: its process's number.
    fn color(&mut self, page: u64, process: u32, colors: Colors) -> u64;

    /// The list of frames that it follows, if any.
    fn list(&self) -> Option<&FrameList> {
        None
    }

    /// The first of the frames that a page or superpage must have, if its list says so.
    fn frames(&self, _unit: Superpage, _process: u32) -> Option<Frame> {
        None
    }
}

/// Copies of a placement of unknown type.
pub trait PlacementCopy {
    /// A copy with its state.
    fn boxed(&self) -> Box<dyn Placement>;
}

impl<P: Placement + Clone + 'static> PlacementCopy for P {
    fn boxed(&self) -> Box<dyn Placement> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn Placement> {
    fn clone(&self) -> Self {
        self.boxed()
    }
}
