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
//! Cost: a look at the number of free frames in each 512, the bits of those that may hold a cheaper candidate than
//! the best so far, about 2 per frame, and one allocation per move. A caller whose requests fail often should not
//! compact for each: Linux defers it, too.

use super::buddy::{REGION_ORDER, range_of};
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
        // Free buddies are merged, so any block of the order above the largest free one has some used frame. No
        // candidate is cheaper than one that has no more than that.
        let least = 1 << (order - self.largest_free_order()? - 1);
        let mut best: Option<(u64, Block)> = None;
        // Candidates of less than a region are looked at only where the region has enough free frames.
        let stretch = order.max(REGION_ORDER);
        for start in (0..self.frames()).step_by(1 << stretch) {
            let bound = best.map_or(u64::MAX, |(frames, _)| frames);
            if self.least_used(start, order, stretch) >= bound {
                continue;
            }
            let end = self.frames().min(start + (1 << stretch));
            for index in start >> order..end >> order {
                let block = Block { first: Frame(index << order), order };
                if self.has_unmovable(block) {
                    continue;
                }
                let bound = best.map_or(u64::MAX, |(frames, _)| frames);
                let frames = self.used_in(block, bound);
                // A block in which nothing begins is part of a larger one that was given out.
                if 0 < frames && frames < bound && self.fits_elsewhere(block) {
                    if frames == least {
                        return Some(block);
                    }
                    best = Some((frames, block));
                }
            }
        }
        best.map(|(_, block)| block)
    }

    /// No fewer frames are used in a block of `order` that lies in the 2^`stretch` frames at `start`.
    fn least_used(&self, start: u64, order: u32, stretch: u32) -> u64 {
        let regions = (start >> REGION_ORDER) as usize..((start + (1 << stretch)) >> REGION_ORDER) as usize;
        let regions = &self.free_in[regions.start..regions.end.min(self.free_in.len())];
        let free: u64 = regions.iter().map(|&frames| u64::from(frames)).sum();
        (1_u64 << order).saturating_sub(free)
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
                self.withdraw(Frame(index << of), of);
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
