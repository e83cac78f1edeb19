//! Physical memory with one entry per frame; free blocks are found by searching all frames.

/// A block of 2^order frames: its first frame and its order.
pub type Block = (u64, u32);
/// A block that moved: from, to, order.
pub type Move = (u64, u64, u32);

/// The allocated block that a frame belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FrameUse {
    block: Block,
    unmovable: bool,
}

/// All frames: free, or part of an allocated block.
#[derive(Clone, Debug)]
pub struct Frames {
    frames: Vec<Option<FrameUse>>,
    max_order: u32,
}

impl Frames {
    /// A memory with all frames free, in blocks of up to 2^`max_order` frames.
    pub fn new(frames: u64, max_order: u32) -> Frames {
        Frames { frames: vec![None; frames as usize], max_order }
    }

    /// Marks a free block as allocated.
    pub fn set(&mut self, block: Block, unmovable: bool) {
        for frame in self.of(block) {
            assert_eq!(*frame, None, "owned twice");
            *frame = Some(FrameUse { block, unmovable });
        }
    }

    fn of(&mut self, (first, order): Block) -> &mut [Option<FrameUse>] {
        &mut self.frames[first as usize..][..1 << order]
    }

    fn exists(&self, (first, order): Block) -> bool {
        order <= self.max_order && first + (1 << order) <= self.frames.len() as u64
    }

    fn all_free(&self, (first, order): Block) -> bool {
        self.exists((first, order))
            && (first..first + (1 << order)).all(|frame| self.frames[frame as usize].is_none())
    }

    /// All blocks by ascending address: `None` for free blocks, as large as possible, else whether the allocated block
    /// is unmovable.
    pub fn blocks(&self) -> Vec<(Block, Option<bool>)> {
        let (mut blocks, mut next) = (Vec::new(), 0);
        while next < self.frames.len() as u64 {
            let (block, state) = match self.frames[next as usize] {
                Some(used) => (used.block, Some(used.unmovable)),
                None => {
                    let rest = self.frames[next as usize..].iter().take(1 << self.max_order);
                    let free = rest.take_while(|frame| frame.is_none()).count();
                    ((next, free.ilog2().min(next.trailing_zeros())), None)
                }
            };
            blocks.push((block, state));
            next += 1 << block.1;
        }
        blocks
    }

    /// The free blocks.
    pub fn free_blocks(&self) -> Vec<Block> {
        self.blocks().into_iter().filter(|(_, state)| state.is_none()).map(|(block, _)| block).collect()
    }

    /// The share of free frames in blocks smaller than `order`.
    pub fn unusable_index(&self, order: u32) -> f64 {
        let (mut all, mut too_small) = (0_u64, 0_u64);
        for (_, of) in self.free_blocks() {
            all += 1 << of;
            too_small += if of < order { 1 << of } else { 0 };
        }
        if all == 0 { 1.0 } else { too_small as f64 / all as f64 }
    }

    /// Allocates a block from the beginning of the lowest among the smallest sufficient free blocks.
    pub fn allocate(&mut self, order: u32) -> Option<u64> {
        let suffice = self.free_blocks().into_iter().filter(|&(_, of)| of >= order);
        let (first, _) = suffice.min_by_key(|&(first, of)| (of, first))?;
        self.set((first, order), false);
        Some(first)
    }

    /// Allocates a frame of a color: the lowest in the lowest of the smallest free blocks that have one.
    pub fn allocate_color(&mut self, color: u64, colors: u64) -> Option<u64> {
        let inside =
            |(first, order): Block| (first..first + (1 << order)).find(|frame| frame % colors == color);
        let blocks = self.free_blocks();
        let found = blocks.iter().filter_map(|&(first, order)| Some((order, first, inside((first, order))?)));
        let (_, _, frame) = found.min()?;
        self.set((frame, 0), false);
        Some(frame)
    }

    /// Allocates this block, if it is free.
    pub fn allocate_at(&mut self, first: u64, order: u32) -> bool {
        let free = self.all_free((first, order));
        if free {
            self.set((first, order), false);
        }
        free
    }

    /// Allocates `frames` frames in blocks, each the largest free block that does not exceed the remainder.
    pub fn allocate_eager(&mut self, frames: u64) -> Option<Vec<Block>> {
        let before = self.clone();
        let (mut missing, mut blocks) = (frames, Vec::new());
        while missing > 0 {
            let some = (0..=self.max_order).rev().filter(|&order| 1 << order <= missing).find_map(|order| {
                let first = self.allocate(order)?;
                Some((first, order))
            });
            let Some(block) = some else {
                *self = before;
                return None;
            };
            blocks.push(block);
            missing -= 1 << block.1;
        }
        Some(blocks)
    }

    /// Frees a block.
    pub fn free(&mut self, block: Block) {
        assert!(self.blocks().iter().any(|&(of, state)| of == block && state.is_some()));
        self.of(block).fill(None);
    }

    /// Splits an allocated block into smaller blocks.
    pub fn split(&mut self, (first, order): Block, to: u32) {
        for at in first..first + (1 << order) {
            self.frames[at as usize].as_mut().unwrap().block = (at >> to << to, to);
        }
    }

    /// Joins allocated blocks into one block.
    pub fn join(&mut self, block: Block) -> bool {
        let (first, order) = block;
        if !self.exists(block) {
            return false;
        }
        let frames = self.of(block);
        let inside = |used: &FrameUse| used.block.1 <= order;
        if !frames.iter().all(|frame| frame.as_ref().is_some_and(inside)) {
            return false;
        }
        let unmovable = frames.iter().any(|frame| frame.unwrap().unmovable);
        frames.fill(Some(FrameUse { block: (first, order), unmovable }));
        true
    }

    /// Makes an allocated block unmovable, or movable again.
    pub fn pin(&mut self, block: Block, unmovable: bool) {
        for frame in self.of(block) {
            frame.as_mut().unwrap().unmovable = unmovable;
        }
    }

    /// Frees a block of `order` by moving others: tries every block and takes the one with the fewest moved frames.
    /// Returns the block's first frame and the moves.
    pub fn compact(&mut self, order: u32) -> Option<(u64, Vec<Move>)> {
        let suffice = self.free_blocks().into_iter().filter(|&(_, of)| of >= order);
        if let Some((first, _)) = suffice.min_by_key(|&(first, of)| (of, first)) {
            return Some((first, Vec::new()));
        }
        let candidates = (0..self.frames.len() as u64).filter(|first| first % (1 << order) == 0);
        let cleared = candidates.filter_map(|first| {
            let (memory, moves) = self.cleared((first, order))?;
            let cost: u64 = moves.iter().map(|&(_, _, of)| 1 << of).sum();
            Some((cost, first, memory, moves))
        });
        let (_, first, memory, moves) = cleared.min_by_key(|&(cost, first, ..)| (cost, first))?;
        *self = memory;
        Some((first, moves))
    }

    /// The memory after freeing this block, and the moves for that.
    fn cleared(&self, block: Block) -> Option<(Frames, Vec<Move>)> {
        if !self.exists(block) {
            return None;
        }
        let (first, order) = block;
        let mut inside: Vec<Block> = Vec::new();
        for frame in &self.frames[first as usize..][..1 << order] {
            let Some(used) = frame else { continue };
            if used.unmovable || used.block.1 >= order {
                return None;
            }
            if !inside.contains(&used.block) {
                inside.push(used.block);
            }
        }
        inside.sort_by_key(|&(first, of)| (std::cmp::Reverse(of), first));
        let mut memory = self.clone();
        // Marked, so that nothing is moved into the block.
        memory.of(block).fill(Some(FrameUse { block, unmovable: true }));
        let mut moves = Vec::new();
        for (from, of) in inside {
            moves.push((from, memory.allocate(of)?, of));
        }
        memory.of(block).fill(None);
        Some((memory, moves))
    }
}

/// One reservation: its key, its block, and the frames in use.
#[derive(Clone, Debug)]
pub struct ReservationSlots {
    /// The key of its owner.
    pub key: u64,
    /// The block.
    pub block: Block,
    /// By offset in the block: whether the frame is in use.
    pub handed_out: Vec<bool>,
}

/// Reservations; the most recently populated is last.
#[derive(Clone, Debug, Default)]
pub struct ReservationList {
    /// The reservations.
    pub list: Vec<ReservationSlots>,
}

impl ReservationList {
    /// The index of the reservation with this key.
    pub fn position(&self, key: u64) -> Option<usize> {
        self.list.iter().position(|reserved| reserved.key == key)
    }

    /// Makes a reservation.
    pub fn reserve(&mut self, memory: &mut Frames, key: u64, order: u32) -> Option<Block> {
        let block = (memory.allocate(order)?, order);
        self.list.push(ReservationSlots { key, block, handed_out: vec![false; 1 << order] });
        Some(block)
    }

    /// Takes a frame of a reservation into use.
    pub fn populate(&mut self, key: u64, offset: u64) -> Option<u64> {
        let at = self.position(key)?;
        let frame = self.list[at].block.0 + offset;
        if !self.list[at].handed_out[offset as usize] {
            let mut reserved = self.list.remove(at);
            reserved.handed_out[offset as usize] = true;
            self.list.push(reserved);
        }
        Some(frame)
    }

    /// Returns a frame to a reservation.
    pub fn depopulate(&mut self, memory: &mut Frames, key: u64, offset: u64) -> bool {
        let Some(at) = self.position(key) else { return false };
        let was = std::mem::take(&mut self.list[at].handed_out[offset as usize]);
        if was && !self.list[at].handed_out.contains(&true) {
            memory.free(self.list.remove(at).block);
        }
        was
    }

    /// Breaks the first reservation that is not full. Returns its key, its block and the number of frames freed.
    pub fn break_least_recent(&mut self, memory: &mut Frames) -> Option<(u64, Block, u64)> {
        let key = self.list.iter().find(|reserved| reserved.handed_out.contains(&false))?.key;
        self.break_up(memory, key)
    }

    /// Breaks the reservation with this key.
    pub fn break_up(&mut self, memory: &mut Frames, key: u64) -> Option<(u64, Block, u64)> {
        let ReservationSlots { key, block, handed_out } = self.list.remove(self.position(key)?);
        memory.split(block, 0);
        let mut freed = 0;
        for (frame, handed_out) in (block.0..).zip(handed_out) {
            if !handed_out {
                memory.free((frame, 0));
                freed += 1;
            }
        }
        Some((key, block, freed))
    }
}
