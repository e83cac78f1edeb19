//! The frames behind pages, from a physical memory, and the ranges that they form.
//!
//! - *Demand*: at its first walk a page gets a frame, or its block gets 512 aligned ones.
//! - *Eager*: memory gets its frames when it becomes usable, by mapping or by `mprotect`, in the largest blocks
//!   ([`Buddy::allocate_eager`]); each part without frames gets them separately. A part smaller than the least range,
//!   or a memory with too little free or too much fragmentation, is backed on demand. The source leaves the measure of
//!   fragmentation open; here it is the unusable index of huge pages, with a bound of one half.
//!
//! A range is a run of consecutive pages in consecutive frames under the same rights.
//!
//! Source: Karakostas 2016, sections 4.5.1 and 4.5.2.

use super::extents::Extents;
use pagewalk_mm::Superpage;
use pagewalk_mm::frames::{Buddy, Frame};
use std::ops::Range;

/// Unusable index above which nothing is allocated eagerly.
const FRAGMENTED: f64 = 0.5;

/// Frames by page.
#[derive(Clone, Debug)]
pub(crate) struct Backing {
    memory: Buddy,
    eager: bool,
    /// Order of a huge page.
    huge: u32,
    pub extents: Extents,
    /// Walks for pages that found no frame.
    pub unbacked: u64,
}

impl Backing {
    pub fn new(memory: Buddy, eager: bool, huge: u32) -> Backing {
        Backing { memory, eager, huge, extents: Extents::default(), unbacked: 0 }
    }

    /// The pages become usable.
    pub fn opened(&mut self, pages: Range<u64>, threshold: u64) {
        let backed: Vec<Range<u64>> = self.extents.of(pages.clone()).map(|(extent, _)| extent).collect();
        let mut at = pages.start;
        for extent in backed {
            self.back_eagerly(at..extent.start, threshold);
            at = extent.end;
        }
        self.back_eagerly(at..pages.end, threshold);
    }

    /// Backs pages that have no frames eagerly; the range may be empty.
    fn back_eagerly(&mut self, pages: Range<u64>, threshold: u64) {
        let wanted = pages.end.saturating_sub(pages.start);
        if !self.eager || wanted < threshold || self.memory.unusable_index(self.huge) > FRAGMENTED {
            return;
        }
        let mut at = pages.start;
        for block in self.memory.allocate_eager(wanted).unwrap_or_default() {
            self.memory.split(block.first, block.order, 0);
            self.extents.add(at, block.frames(), block.first.0);
            at += block.frames();
        }
    }

    /// A walk for a base page.
    pub fn touched(&mut self, page: u64) {
        if self.extents.frame(page).is_some() {
            return;
        }
        match self.memory.allocate(0) {
            Some(frame) => self.extents.add(page, 1, frame.0),
            None => self.unbacked += 1,
        }
    }

    /// Whether a huge page can back a block: its frames are consecutive and aligned already, or nothing of it is backed
    /// and such frames are free.
    pub fn back_block(&mut self, block: Superpage) -> bool {
        let pages = block.pages();
        if let Some((extent, frame)) = self.extents.extent(pages.start) {
            let first = frame + (pages.start - extent.start);
            return extent.end >= pages.end && first.is_multiple_of(block.len());
        }
        self.extents.of(pages).next().is_none() && self.take(block)
    }

    /// Whether a huge page can back a partly backed block: in its present frames, or in free ones, to which the block
    /// then moves.
    pub fn collapse(&mut self, block: Superpage) -> bool {
        self.back_block(block) || self.take(block)
    }

    /// Replaces a block's frames by new ones.
    fn take(&mut self, block: Superpage) -> bool {
        let order = block.order.into();
        let Some(frame) = self.memory.allocate(order) else { return false };
        self.gone(&block.pages());
        self.memory.split(frame, order, 0);
        self.extents.add(block.first, block.len(), frame.0);
        true
    }

    /// The pages are gone: frees their frames.
    pub fn gone(&mut self, pages: &Range<u64>) {
        for frame in self.extents.remove(pages).into_iter().flatten() {
            self.memory.free(Frame(frame), 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backing(eager: bool) -> Backing {
        Backing::new(Buddy::new(1 << 12, 10), eager, 9)
    }

    #[test]
    fn pages_touched_in_order_make_one_extent_and_holes_cut_it() {
        let mut backing = backing(false);
        (100..132).for_each(|page| backing.touched(page));
        assert_eq!(backing.extents.all().collect::<Vec<_>>(), [(100..132, 0)]);
        backing.gone(&(110..112));
        assert_eq!(backing.extents.all().collect::<Vec<_>>(), [(100..110, 0), (112..132, 12)]);
        backing.touched(111);
        assert_eq!(
            backing.extents.frame(111),
            Some(10),
            "the lowest free frame, which is not beside the other ones"
        );
        assert_eq!(backing.extents.len(), 3);
    }

    #[test]
    fn eager_memory_lies_together_and_small_requests_wait() {
        let mut backing = backing(true);
        backing.opened(1000..1100, 8);
        backing.opened(2000..2004, 8);
        assert_eq!(backing.extents.all().collect::<Vec<_>>(), [(1000..1100, 0)]);
        backing.touched(2001);
        assert_eq!(backing.extents.frame(2001), Some(100));
        backing.gone(&(0..5000));
        assert_eq!((backing.extents.len(), backing.memory.free_frames()), (0, 1 << 12));
    }

    fn block(number: u64) -> Superpage {
        Superpage { first: number << 9, order: 9 }
    }

    #[test]
    fn a_huge_page_needs_aligned_frames() {
        let mut backing = backing(false);
        backing.touched(7);
        assert!(backing.back_block(block(1)), "frames of an aligned block are free");
        assert_eq!(backing.extents.frame(512), Some(512));
        assert!(!backing.back_block(block(0)), "part of it has frames already");
        assert!(backing.collapse(block(0)));
        assert_eq!((backing.extents.frame(7), backing.extents.frame(8)), (Some(1031), Some(1032)));
        assert_eq!(backing.memory.free_frames(), (1 << 12) - 1024, "its old frame is free");
    }
}
