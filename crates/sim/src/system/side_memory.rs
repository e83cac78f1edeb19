//! A process's pages, for a data side.

use crate::data_side::{DesignMemory, Extents, Frames, Segments};
use pagewalk_mm::Kernel;
use std::ops::Range;

/// One process's pages, for a data side.
#[derive(Clone)]
pub(super) struct SideMemory {
    pub design: DesignMemory,
    pub segments: Segments,
}

impl SideMemory {
    /// Updates these pages' frames from a kernel's memory.
    pub fn follow(&mut self, kernel: &Kernel, pages: Range<u64>) {
        let Frames::Kernel(extents) = &mut self.design.frames else { return };
        extents.remove(&pages);
        for unit in kernel.table().units_in(pages) {
            extents.remove(&unit.pages());
            let frame = kernel.frame_of(unit.first).filter(|_| !kernel.table().is_protected(unit.first));
            if let Some(frame) = frame {
                extents.add(unit.first, unit.len(), frame.0);
            }
        }
    }

    /// Whether it tracks all frames of a kernel.
    pub fn knows_frames_of(&self, kernel: &Kernel) -> bool {
        let Frames::Kernel(extents) = &self.design.frames else { return true };
        let mut anew = self.clone();
        anew.design.frames = Frames::Kernel(Extents::default());
        kernel.table().units().into_iter().for_each(|unit| anew.follow(kernel, unit.pages()));
        anew.design.frames.extents().is_some_and(|all| all == extents)
    }
}
