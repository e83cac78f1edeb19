//! Eager allocation: a whole request at once, in the largest blocks.
//!
//! Karakostas 2016, Algorithm 4.1, with its slips repaired:
//! - its test of a free list, printed as "≥ 0", which always holds, means that the list has a block;
//! - where the list of the wanted order is empty and a larger block is free, the printed loop goes on to smaller
//!   blocks, though the text has the ordinary allocator split the larger one: here it is split;
//! - the printed loop never ends when memory does: here a request that free memory cannot hold takes nothing;
//! - its `MAX_ORDER` is exclusive, as Linux's was: here the largest order is inclusive.
//!
//! Its test of fragmentation, whose measure and bound the thesis does not give, is a policy and left to the caller
//! ([`Buddy::unusable_index`] is a measure). Of the two enhancements that the thesis describes and did not build, lists
//! sorted by address are how this allocator works; a request smaller than a block taking the block's prefix is not
//! done.

use super::{Block, Buddy};

impl Buddy {
    /// Gives out `frames` frames as movable blocks: the largest that is not above the rest of the request, again and
    /// again. `None`, and nothing changes, when fewer are free.
    ///
    /// ```
    /// use pagewalk_mm::frames::{Block, Buddy, Frame};
    ///
    /// let mut memory = Buddy::new(1 << 10, 10);
    /// let blocks = memory.allocate_eager(13);
    /// let block = |first, order| Block { first: Frame(first), order };
    /// assert_eq!(blocks, Some(vec![block(0, 3), block(8, 2), block(12, 0)]));
    /// assert_eq!(memory.allocate_eager(1012), None);
    /// ```
    pub fn allocate_eager(&mut self, frames: u64) -> Option<Vec<Block>> {
        if frames > self.free_frames() {
            return None;
        }
        let (mut rest, mut blocks) = (frames, Vec::new());
        while rest > 0 {
            let order = self.largest_free_order()?.min(rest.ilog2());
            blocks.push(Block { first: self.allocate(order)?, order });
            rest -= 1 << order;
        }
        Some(blocks)
    }
}
