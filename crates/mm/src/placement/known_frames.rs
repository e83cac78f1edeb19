//! Listed frames: those that the pages of a real process had.

use super::{Colors, FrameList, Placement};
use crate::Superpage;
use crate::frames::Frame;
use std::sync::Arc;

/// The frames of a list for the pages of the first process, which the list is of. All other pages get the colors of
/// another placement.
#[derive(Clone)]
pub struct Listed {
    list: Arc<FrameList>,
    others: Box<dyn Placement>,
}

impl Listed {
    /// Frames by a list, with a placement for pages that it does not name.
    pub fn new(list: FrameList, others: Box<dyn Placement>) -> Listed {
        Listed { list: Arc::new(list), others }
    }
}

impl Placement for Listed {
    fn name(&self) -> &'static str {
        "listed frames"
    }

    fn color(&mut self, page: u64, process: u32, colors: Colors) -> u64 {
        self.others.color(page, process, colors)
    }

    fn list(&self) -> Option<&FrameList> {
        Some(&self.list)
    }

    fn frames(&self, unit: Superpage, process: u32) -> Option<Frame> {
        let frame = if process == 0 { self.list.get(unit.first, unit.len()) } else { None };
        frame.filter(|frame| frame.0.is_multiple_of(unit.len()))
    }
}
