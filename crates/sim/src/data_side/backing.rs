//! Which frames of a physical memory lie behind pages, and which ranges that makes.
//!
//! - *Demand*: a page gets a frame, or its block 512 that are aligned, when it is first walked for.
//! - *Eager*: memory gets its frames when it may be used first, as it is mapped or by `mprotect`, in the largest blocks
//!   ([`Buddy::allocate_eager`]), each part that has none yet for itself; where that is smaller than a range may be, or
//!   memory has too little free or is fragmented, on demand. As the measure of fragmentation, which the source leaves
//!   open, the unusable index of huge pages is taken, with the bound of one half.
//!
//! A range is pages that follow each other, in frames that do, under the same rights.
//!
//! Source: Karakostas 2016, sections 4.5.1 and 4.5.2.

use pagewalk_mm::frames::{Buddy, Frame};
use std::collections::BTreeMap;
use std::ops::Range;

/// Unusable index above which nothing is allocated eagerly.
const FRAGMENTED: f64 = 0.5;

/// Frames by page.
#[derive(Debug)]
pub(super) struct Backing {
    memory: Buddy,
    eager: bool,
    /// Order of a huge page.
    huge: u32,
    /// By first page: pages that follow each other in frames that do, and the first frame.
    extents: BTreeMap<u64, (u64, u64)>,
    /// Walks for pages that found no frame.
    pub unbacked: u64,
}

impl Backing {
    pub fn new(memory: Buddy, eager: bool, huge: u32) -> Backing {
        Backing { memory, eager, huge, extents: BTreeMap::new(), unbacked: 0 }
    }

    /// The frame of a page.
    pub fn frame(&self, page: u64) -> Option<u64> {
        let (&first, &(pages, frame)) = self.extents.range(..=page).next_back()?;
        (page - first < pages).then(|| frame + (page - first))
    }

    /// The extent that has a page: its pages, and its first frame.
    pub fn extent(&self, page: u64) -> Option<(Range<u64>, u64)> {
        let (&first, &(pages, frame)) = self.extents.range(..=page).next_back()?;
        (page - first < pages).then_some((first..first + pages, frame))
    }

    /// All extents, by ascending page.
    pub fn extents(&self) -> impl Iterator<Item = (Range<u64>, u64)> + '_ {
        self.extents.iter().map(|(&first, &(pages, frame))| (first..first + pages, frame))
    }

    /// Those that have pages of a range.
    pub fn extents_of(&self, pages: Range<u64>) -> impl Iterator<Item = (Range<u64>, u64)> + '_ {
        let from = self.extent(pages.start).map_or(pages.start, |(extent, _)| extent.start);
        self.extents.range(from..pages.end).map(|(&first, &(pages, frame))| (first..first + pages, frame))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.extents.len()
    }

    /// Pages may be used from now on.
    pub fn opened(&mut self, pages: Range<u64>, threshold: u64) {
        let backed: Vec<Range<u64>> = self.extents_of(pages.clone()).map(|(extent, _)| extent).collect();
        let mut at = pages.start;
        for extent in backed {
            self.back_eagerly(at..extent.start, threshold);
            at = extent.end;
        }
        self.back_eagerly(at..pages.end, threshold);
    }

    /// Pages that nothing backs, some of which may be none.
    fn back_eagerly(&mut self, pages: Range<u64>, threshold: u64) {
        let wanted = pages.end.saturating_sub(pages.start);
        if !self.eager || wanted < threshold || self.memory.unusable_index(self.huge) > FRAGMENTED {
            return;
        }
        let mut at = pages.start;
        for block in self.memory.allocate_eager(wanted).unwrap_or_default() {
            self.memory.split(block.first, block.order, 0);
            self.add(at, block.frames(), block.first.0);
            at += block.frames();
        }
    }

    /// A base page is walked for.
    pub fn touched(&mut self, page: u64) {
        if self.frame(page).is_some() {
            return;
        }
        match self.memory.allocate(0) {
            Some(frame) => self.add(page, 1, frame.0),
            None => self.unbacked += 1,
        }
    }

    /// Whether a huge page can lie behind a block: frames that follow each other from an aligned one on are there, or
    /// are found for a block of which nothing is backed.
    pub fn back_block(&mut self, block: u64) -> bool {
        let pages = block << self.huge..(block + 1) << self.huge;
        if let Some((extent, frame)) = self.extent(pages.start) {
            let first = frame + (pages.start - extent.start);
            return extent.end >= pages.end && first.is_multiple_of(1 << self.huge);
        }
        if self.extents.range(pages.clone()).next().is_some() {
            return false;
        }
        let Some(frame) = self.memory.allocate(self.huge) else { return false };
        self.memory.split(frame, self.huge, 0);
        self.add(pages.start, 1 << self.huge, frame.0);
        true
    }

    /// Whether a huge page can lie behind a block of which some is backed: in frames as they are, or in others that are
    /// found, which the block then moves to.
    pub fn collapse(&mut self, block: u64) -> bool {
        if self.back_block(block) {
            return true;
        }
        let pages = block << self.huge..(block + 1) << self.huge;
        let Some(frame) = self.memory.allocate(self.huge) else { return false };
        self.gone(&pages);
        self.memory.split(frame, self.huge, 0);
        self.add(pages.start, 1 << self.huge, frame.0);
        true
    }

    fn add(&mut self, first: u64, pages: u64, frame: u64) {
        let (mut first, mut pages, mut frame) = (first, pages, frame);
        if let Some((&before, &(its, at))) = self.extents.range(..first).next_back()
            && before + its == first
            && at + its == frame
        {
            self.extents.remove(&before);
            (first, pages, frame) = (before, its + pages, at);
        }
        if let Some(&(its, at)) = self.extents.get(&(first + pages))
            && frame + pages == at
        {
            self.extents.remove(&(first + pages));
            pages += its;
        }
        self.extents.insert(first, (pages, frame));
    }

    /// Pages are gone: their frames are free again.
    pub fn gone(&mut self, pages: &Range<u64>) {
        let from = self.extent(pages.start).map_or(pages.start, |(extent, _)| extent.start);
        let touched: Vec<u64> = self.extents.range(from..pages.end).map(|(&first, _)| first).collect();
        for first in touched {
            let Some((its, frame)) = self.extents.remove(&first) else { continue };
            let (start, end) = (first.max(pages.start), (first + its).min(pages.end));
            for page in start..end {
                self.memory.free(Frame(frame + (page - first)), 0);
            }
            if first < start {
                self.extents.insert(first, (start - first, frame));
            }
            if end < first + its {
                self.extents.insert(end, (first + its - end, frame + (end - first)));
            }
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
        assert_eq!(backing.extents().collect::<Vec<_>>(), [(100..132, 0)]);
        backing.gone(&(110..112));
        assert_eq!(backing.extents().collect::<Vec<_>>(), [(100..110, 0), (112..132, 12)]);
        backing.touched(111);
        assert_eq!(backing.frame(111), Some(10), "the lowest free frame, which is not beside the other ones");
        assert_eq!(backing.len(), 3);
    }

    #[test]
    fn eager_memory_lies_together_and_small_requests_wait() {
        let mut backing = backing(true);
        backing.opened(1000..1100, 8);
        backing.opened(2000..2004, 8);
        assert_eq!(backing.extents().collect::<Vec<_>>(), [(1000..1100, 0)]);
        backing.touched(2001);
        assert_eq!(backing.frame(2001), Some(100));
        backing.gone(&(0..5000));
        assert_eq!((backing.len(), backing.memory.free_frames()), (0, 1 << 12));
    }

    #[test]
    fn a_huge_page_needs_aligned_frames() {
        let mut backing = backing(false);
        backing.touched(7);
        assert!(backing.back_block(1), "frames of an aligned block are free");
        assert_eq!(backing.frame(512), Some(512));
        assert!(!backing.back_block(0), "part of it has frames already");
        assert!(backing.collapse(0));
        assert_eq!((backing.frame(7), backing.frame(8)), (Some(1031), Some(1032)));
        assert_eq!(backing.memory.free_frames(), (1 << 12) - 1024, "its old frame is free");
    }
}
