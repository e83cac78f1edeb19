//! Reference model of backing: which frame backs each page, found by searching lists.

use crate::frames::Frames;
use crate::miss_policies::Block;
use std::collections::{BTreeMap, BTreeSet};

/// A physical memory, and the use of its frames.
#[derive(Clone, Debug)]
pub struct Memory {
    /// The allocator.
    pub frames: Frames,
    /// The frame of each backed base page.
    pub frame: BTreeMap<u64, u64>,
    /// Units in the order in which they were backed or last passed over by the clock.
    pub clock: Vec<Block>,
    /// The units that were walked to since they were passed over.
    pub accessed: BTreeSet<Block>,
    /// Base pages swapped out.
    pub swapped: BTreeSet<u64>,
    /// Whether memory is compacted for promotions.
    pub compacts: bool,
    /// Faults that were backed by a smaller block than they could have been.
    pub fallen_back: u64,
    /// Promotions refused for want of frames.
    pub refused: u64,
    /// Number of compactions.
    pub compactions: u64,
    /// Frames moved by compactions.
    pub moved: u64,
    /// Number of pages swapped out and in.
    pub swaps: [u64; 2],
    /// Whether the process is killed when no frame is free.
    pub kills: bool,
    /// Whether the process was killed.
    pub killed: bool,
    /// Requests backed when mapped, their base pages and their runs of frames, and requests left to demand paging.
    pub eager: [u64; 4],
}

fn pages((first, order): Block) -> std::ops::Range<u64> {
    first..first + (1 << order)
}

impl Memory {
    /// A memory in which nothing is backed.
    pub fn new(frames: Frames, compacts: bool) -> Memory {
        Memory {
            frames,
            frame: BTreeMap::new(),
            clock: Vec::new(),
            accessed: BTreeSet::new(),
            swapped: BTreeSet::new(),
            compacts,
            fallen_back: 0,
            refused: 0,
            compactions: 0,
            moved: 0,
            swaps: [0; 2],
            kills: false,
            killed: false,
            eager: [0; 4],
        }
    }

    pub(crate) fn own(&mut self, unit: Block, frame: u64) {
        for (page, frame) in pages(unit).zip(frame..) {
            assert_eq!(self.frame.insert(page, frame), None, "backed twice");
        }
        self.clock.push(unit);
    }

    /// Backs a unit, if a free block exists.
    pub fn take(&mut self, unit: Block) -> bool {
        let frame = self.frames.allocate(unit.1.into());
        frame.into_iter().for_each(|frame| self.own(unit, frame));
        frame.is_some()
    }

    pub(crate) fn forget(&mut self, unit: Block) -> u64 {
        let frame = self.frame[&unit.0];
        for (page, frame) in pages(unit).zip(frame..) {
            assert_eq!(self.frame.remove(&page), Some(frame), "units lie in one block");
        }
        self.clock.retain(|&other| other != unit);
        self.accessed.remove(&unit);
        frame
    }

    /// Whether a unit is backed by this memory.
    pub fn backs(&self, unit: Block) -> bool {
        self.frame.contains_key(&unit.0)
    }

    /// Frees a unit's frames.
    pub fn release(&mut self, unit: Block) {
        let frame = self.forget(unit);
        self.frames.free((frame, unit.1.into()));
    }

    /// Splits a unit into parts.
    pub fn split(&mut self, unit: Block, parts: &[Block]) {
        let frame = self.forget(unit);
        self.frames.split((frame, unit.1.into()), 0);
        for &part in parts {
            let its = frame + (part.0 - unit.0);
            assert!(self.frames.join((its, part.1.into())));
            self.own(part, its);
        }
    }

    /// Gets a block for a superpage whose parts are backed now. Returns the other units that were moved for it.
    pub fn replace(&mut self, block: Block, parts: &[Block]) -> Option<Vec<Block>> {
        let order = block.1.into();
        let is_whole = !pages(block).any(|page| self.swapped.contains(&page));
        let mut moved = Vec::new();
        let mut frame = if is_whole { self.frames.allocate(order) } else { None };
        if is_whole
            && frame.is_none()
            && self.compacts
            && let Some((_, moves)) = self.frames.compact(order)
        {
            self.compactions += 1;
            for (from, to, of) in moves {
                self.moved += 1 << of;
                let inside = |&(_, frame): &(&u64, &u64)| (from..from + (1 << of)).contains(frame);
                let its: Vec<u64> = self.frame.iter().filter(inside).map(|(&page, _)| page).collect();
                its.iter().for_each(|page| *self.frame.get_mut(page).unwrap() -= from);
                its.iter().for_each(|page| *self.frame.get_mut(page).unwrap() += to);
                moved.extend(its.first().map(|&page| (page, of as u8)));
            }
            frame = self.frames.allocate(order);
        }
        let Some(frame) = frame else {
            self.refused += 1;
            return None;
        };
        parts.iter().for_each(|&part| self.release(part));
        self.own(block, frame);
        moved.retain(|&(first, _)| !pages(block).contains(&first));
        Some(moved)
    }

    /// Backs a range of pages by the largest blocks, in units of `orders`, if enough is free and not more than
    /// `limit` of it in blocks smaller than `huge`. Returns the units and how many runs of frames they take.
    pub fn take_eager(
        &mut self,
        range: std::ops::Range<u64>,
        orders: u32,
        huge: u8,
        limit: f64,
    ) -> Option<(Vec<Block>, u64)> {
        if self.frames.unusable_index(huge.into()) > limit {
            return None;
        }
        let blocks = self.frames.allocate_eager(range.end - range.start)?;
        let (mut units, mut at) = (Vec::new(), range.start);
        for &(first, order) in &blocks {
            self.frames.split((first, order), 0);
            let end = at + (1 << order);
            let frame_of = |page: u64| first + (page + (1 << order) - end);
            while at < end {
                let aligned = |unit: &u8| at % (1 << unit) == 0 && frame_of(at) % (1 << unit) == 0;
                let unit = (0..14)
                    .rev()
                    .filter(aligned)
                    .filter(|&unit| (orders | 1) >> unit & 1 == 1)
                    .find(|&unit| at + (1 << unit) <= end)
                    .unwrap();
                assert!(self.frames.join((frame_of(at), unit.into()),));
                self.own((at, unit), frame_of(at));
                units.push((at, unit));
                at += 1 << unit;
            }
        }
        let runs = blocks.windows(2).filter(|pair| pair[0].0 + (1 << pair[0].1) != pair[1].0).count() as u64;
        Some((units, runs + 1))
    }

    /// The unit to swap out next.
    pub fn victim(&mut self) -> Block {
        loop {
            let unit = self.clock.remove(0);
            self.clock.push(unit);
            if !self.accessed.remove(&unit) {
                return unit;
            }
        }
    }

    /// The next victim among the units with names from `names` on: the first that was not walked to since it was passed
    /// over, else the first.
    pub fn cached_victim(&mut self, names: u64) -> Option<u64> {
        let cached: Vec<Block> = self.clock.iter().copied().filter(|unit| unit.0 >= names).collect();
        let found = cached.iter().find(|unit| !self.accessed.remove(unit));
        found.or(cached.first()).map(|unit| unit.0)
    }

    /// Renames a page's frame to a name that is never swapped out.
    pub fn lend(&mut self, page: u64, name: u64) {
        let frame = self.forget((page, 0));
        self.frame.insert(name, frame);
    }

    /// Checks that the frames that back pages have no other owner, and that all other frames are free or belong to
    /// others.
    pub fn check(&self, others: u64) {
        let owned: BTreeSet<u64> = self.frame.values().copied().collect();
        assert_eq!(owned.len(), self.frame.len(), "owned twice");
        let used: u64 = self
            .frames
            .blocks()
            .iter()
            .filter(|(_, state)| state.is_some())
            .map(|(block, _)| 1 << block.1)
            .sum();
        assert_eq!(used, self.frame.len() as u64 + others, "frames lost");
    }
}
