//! Compaction: frees a block by moving its used frames elsewhere.
//!
//! It clears the aligned block of the requested order with the fewest used frames and nothing unmovable; of several,
//! the lowest. Allocated blocks move whole, large ones first, so a huge page stays one. Each goes where the allocator
//! would place it outside: into the lowest of the smallest free blocks that suffice. Candidates whose contents do not
//! fit elsewhere are skipped.
//!
//! This is the cheapest compaction for one block, a lower bound on any kernel's. Linux (`mm/compaction.c`; Corbet,
//! "Memory compaction", LWN.net 2010) uses two scanners instead: one collects movable pages from the bottom of a zone,
//! the other free pages from its top, until there is a free block of the order. So Linux moves at least as much, in an
//! order that depends on the scanners' positions. The result lists the moves, and the caller charges for them.
//!
//! Cost: reading the number of free frames in each 512, the bits (about 2 per frame) of regions that may hold a cheaper
//! candidate than the best so far, and one allocation per move. A caller whose requests fail often should not compact
//! for each; Linux defers compaction too.

use super::buddy::{REGION_ORDER, range_of};
use super::{Buddy, Frame, FrameBlock};

/// The move of an allocated block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Move {
    /// Its old first frame.
    pub from: Frame,
    /// Its new first frame.
    pub to: Frame,
    /// log2 of its frames.
    pub order: u32,
}

/// A freed block, and the moves for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compaction {
    /// The block, now free, perhaps as part of a larger free block.
    pub block: FrameBlock,
    /// The moves in order; no destination lies in the block. Empty if a block was free already.
    pub moves: Vec<Move>,
}

impl Compaction {
    /// Frames copied, which the caller charges for.
    pub fn frames_moved(&self) -> u64 {
        self.moves.iter().map(|moved| 1 << moved.order).sum()
    }
}

impl Buddy {
    /// Frees a block of `order` by moving the fewest frames; unmovable blocks stay. `None`, with nothing changed, if no
    /// block can be cleared.
    ///
    /// The caller must apply the moves to its references to frames that it owns; other moves need only be charged.
    pub fn compact(&mut self, order: u32) -> Option<Compaction> {
        if let Some(free) = self.smallest_free(order) {
            return Some(Compaction { block: FrameBlock { order, ..free }, moves: Vec::new() });
        }
        let block = self.cheapest(order)?;
        let moves = self.clear(block);
        Some(Compaction { block, moves })
    }

    /// The block to clear, if no block of this order is free.
    fn cheapest(&self, order: u32) -> Option<FrameBlock> {
        if order > self.max_order() || self.free_frames() < 1 << order {
            return None;
        }
        // Free buddies are merged, so every block of the order above the largest free one has a used frame: a lower
        // bound on the cost of a candidate.
        let least = 1 << (order - self.largest_free_order()? - 1);
        let mut best: Option<(u64, FrameBlock)> = None;
        // Candidates below a region's size are examined only if their region has enough free frames.
        let stretch = order.max(REGION_ORDER);
        for start in (0..self.frames()).step_by(1 << stretch) {
            let bound = best.map_or(u64::MAX, |(frames, _)| frames);
            if self.least_used(start, order, stretch) >= bound {
                continue;
            }
            let end = self.frames().min(start + (1 << stretch));
            for index in start >> order..end >> order {
                let block = FrameBlock { first: Frame(index << order), order };
                if self.has_unmovable(block) {
                    continue;
                }
                let bound = best.map_or(u64::MAX, |(frames, _)| frames);
                let frames = self.used_in(block, bound);
                // A block in which no allocated block begins is part of a larger one.
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

    /// A lower bound on the used frames of a block of `order` in the 2^`stretch` frames at `start`.
    fn least_used(&self, start: u64, order: u32, stretch: u32) -> u64 {
        let regions = (start >> REGION_ORDER) as usize..((start + (1 << stretch)) >> REGION_ORDER) as usize;
        let regions = &self.free_in[regions.start..regions.end.min(self.free_in.len())];
        let free: u64 = regions.iter().map(|&frames| u64::from(frames)).sum();
        (1_u64 << order).saturating_sub(free)
    }

    /// Frames of allocated blocks in `block`; counting stops at `bound`.
    fn used_in(&self, block: FrameBlock, bound: u64) -> u64 {
        let mut frames = 0;
        for of in 0..block.order {
            frames += self.used[of as usize].count(range_of(block.first, block.order, of)) << of;
            if frames >= bound {
                break;
            }
        }
        frames
    }

    fn has_unmovable(&self, block: FrameBlock) -> bool {
        self.unmovable.any(range_of(block.first, block.order, 0))
    }

    /// Whether free blocks outside can take the used blocks of `block`. Large blocks first leave no gap that smaller
    /// ones cannot fill, so counting is enough.
    fn fits_elsewhere(&self, block: FrameBlock) -> bool {
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

    /// Moves all used blocks out of `block` and frees it.
    fn clear(&mut self, block: FrameBlock) -> Vec<Move> {
        // Remove its free parts from the lists first, or moves could target them.
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
                let to = self.allocate(of).expect("fits_elsewhere counted the room");
                moves.push(Move { from: Frame(index << of), to, order: of });
            }
        }
        self.put_free(block.first.0, block.order);
        moves
    }
}
