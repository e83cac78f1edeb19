//! Compaction: making a free block by moving what is used in it elsewhere.
//!
//! Of all aligned blocks of the order asked for that hold nothing unmovable, the one with the fewest used frames is
//! cleared, the lowest of several. What is used in it moves block by block, large ones first, and each goes where
//! the allocator would place it outside: the lowest of the smallest free blocks that suffice. A block given out moves
//! as a whole, so a huge page stays one. Candidates whose contents would not fit elsewhere are passed over.
//!
//! This is the cheapest compaction that one block needs, a bound below any kernel's. Linux (`mm/compaction.c`; Corbet,
//! "Memory compaction", LWN.net 2010) has two scanners instead: one collects movable pages from the bottom of a
//! zone, the other free pages from its top, and they stop once a free block of the order came about, so Linux moves
//! at least as much, in an order that depends on where the scanners stood. Rule and cost are apart: the answer
//! lists the moves, and the caller charges for them.
//!
//! Cost: a pass over the bits of the used blocks, about 2 bits per frame, whether it finds a candidate or not, and one
//! allocation per move. A caller whose requests fail often should not compact for each: Linux defers it, too.

use super::buddy::range_of;
use super::{Block, Buddy, Frame};

/// A block given out that changed its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Move {
    /// Where its first frame was.
    pub from: Frame,
    /// Where its first frame is now.
    pub to: Frame,
    /// log2 of its frames.
    pub order: u32,
}

/// A block made free, and what it took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compaction {
    /// All of it is free now; it may be part of a larger free block.
    pub block: Block,
    /// In the order they were made; no destination lies in the block. Empty when a block was free already.
    pub moves: Vec<Move>,
}

impl Compaction {
    /// Frames copied, which the caller pays for.
    pub fn frames_moved(&self) -> u64 {
        self.moves.iter().map(|moved| 1 << moved.order).sum()
    }
}

impl Buddy {
    /// Makes a free block of `order`, at the price of the fewest frames moved; unmovable blocks stay. `None`, and
    /// nothing changes, when no block can be cleared.
    ///
    /// The caller must apply the moves to whatever refers to the frames that it owns; moves of frames that others own
    /// need only be paid for.
    pub fn compact(&mut self, order: u32) -> Option<Compaction> {
        if let Some(free) = self.smallest_free(order) {
            return Some(Compaction { block: Block { order, ..free }, moves: Vec::new() });
        }
        let block = self.cheapest(order)?;
        let moves = self.clear(block);
        Some(Compaction { block, moves })
    }

    /// The block to clear. No block of this order is free.
    fn cheapest(&self, order: u32) -> Option<Block> {
        if order > self.max_order() || self.free_frames() < 1 << order {
            return None;
        }
        let mut best: Option<(u64, Block)> = None;
        for index in 0..self.frames() >> order {
            let block = Block { first: Frame(index << order), order };
            let bound = best.map_or(u64::MAX, |(frames, _)| frames);
            let frames = self.used_in(block, bound);
            // A block in which nothing begins is part of a larger one that was given out.
            let cheaper = 0 < frames && frames < bound;
            if cheaper && !self.has_unmovable(block) && self.fits_elsewhere(block) {
                best = Some((frames, block));
                if frames == 1 {
                    break;
                }
            }
        }
        best.map(|(_, block)| block)
    }

    /// Frames in the blocks given out that lie in `block`; counting ends where `bound` is reached.
    fn used_in(&self, block: Block, bound: u64) -> u64 {
        let mut frames = 0;
        for of in 0..block.order {
            frames += self.used[of as usize].count(range_of(block.first, block.order, of)) << of;
            if frames >= bound {
                break;
            }
        }
        frames
    }

    fn has_unmovable(&self, block: Block) -> bool {
        self.unmovable.any(range_of(block.first, block.order, 0))
    }

    /// Whether the free blocks outside can take what is used in `block`. Placing large ones first leaves no gap that
    /// a smaller one could not fill, so counting is enough.
    fn fits_elsewhere(&self, block: Block) -> bool {
        let mut room = 0;
        for of in (0..block.order).rev() {
            let range = range_of(block.first, block.order, of);
            let free = &self.free[of as usize];
            room = 2 * room + free.len() - free.bits().count(range.clone());
            let Some(rest) = room.checked_sub(self.used[of as usize].count(range)) else { return false };
            room = rest;
        }
        true
    }

    /// Moves all that is used in `block` out of it and frees it.
    fn clear(&mut self, block: Block) -> Vec<Move> {
        // Out of the lists first, or what leaves could come back.
        for of in 0..block.order {
            let range = range_of(block.first, block.order, of);
            let inside: Vec<u64> = self.free[of as usize].bits().members(range).collect();
            for index in inside {
                self.free[of as usize].remove(index);
                self.free_frames -= 1 << of;
            }
        }
        let mut moves = Vec::new();
        for of in (0..block.order).rev() {
            let range = range_of(block.first, block.order, of);
            let leaving: Vec<u64> = self.used[of as usize].members(range.clone()).collect();
            self.used[of as usize].remove_range(range);
            for index in leaving {
                let to = self.allocate(of).expect("the room was counted");
                moves.push(Move { from: Frame(index << of), to, order: of });
            }
        }
        self.put_free(block.first.0, block.order);
        moves
    }
}
