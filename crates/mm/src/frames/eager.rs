//! Eager allocation: a whole request at once, in the largest blocks.
//!
//! Karakostas 2016, Algorithm 4.1, with its slips repaired:
//! - its test of a free list, printed as "≥ 0", which always holds, means that the list has a block;
//! - if the list of the wanted order is empty and a larger block is free, the printed loop continues with smaller
//!   blocks, although the text says that the ordinary allocator splits the larger one: here it is split;
//! - the printed loop never ends when memory runs out: here a request beyond free memory takes nothing;
//! - its `MAX_ORDER` is exclusive, as Linux's was: here the largest order is inclusive.
//!
//! Its test of fragmentation, whose measure and bound the thesis does not give, is a policy and left to the caller
//! ([`Buddy::unusable_index`] is a measure). The thesis describes two enhancements without building them: this
//! allocator has lists sorted by address, but does not let a small request take the prefix of a larger block.

use super::{Buddy, FrameBlock};

impl Buddy {
    /// Allocates `frames` frames as movable blocks, each the largest that does not exceed the rest of the request.
    /// `None`, with nothing changed, if fewer are free.
    ///
    /// ```
    /// use pagewalk_mm::frames::{FrameBlock, Buddy, Frame};
    ///
    /// let mut memory = Buddy::new(1 << 10, 10);
    /// let blocks = memory.allocate_eager(13);
    /// let block = |first, order| FrameBlock { first: Frame(first), order };
    /// assert_eq!(blocks, Some(vec![block(0, 3), block(8, 2), block(12, 0)]));
    /// assert_eq!(memory.allocate_eager(1012), None);
    /// ```
    pub fn allocate_eager(&mut self, frames: u64) -> Option<Vec<FrameBlock>> {
        if frames > self.free_frames() {
            return None;
        }
        let (mut rest, mut blocks) = (frames, Vec::new());
        while rest > 0 {
            let order = self.largest_free_order()?.min(rest.ilog2());
            blocks.push(FrameBlock { first: self.allocate(order)?, order });
            rest -= 1 << order;
        }
        Some(blocks)
    }
}
