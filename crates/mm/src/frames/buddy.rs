//! The binary buddy allocator.
//!
//! Memory is cut into blocks of 2^order frames at multiples of their size. A request takes a free block of the
//! smallest order that suffices and halves it until it fits, leaving the other halves free; a block that is freed
//! merges with its buddy, the other half of the block above, as long as that is free too and the order is below the
//! largest. So two free buddies never lie side by side, and the free blocks are a function of which frames are used.
//!
//! Sources: Knowlton, "A Fast Storage Allocator", CACM 8 (10), 1965; Knuth, "The Art of Computer Programming",
//! vol. 1, 1973, section 2.5, algorithms R and S; Linux `mm/page_alloc.c`; Karakostas 2016, section 4.5.2.
//!
//! A request takes the free block with the *lowest address* of its order. Linux takes the one freed last, whose lines
//! may still be cached. With the lowest address the state depends only on which frames are used, not on history: a slow
//! model can check it, and a state read from a real host, which gives counts but no order of lists, is complete. It
//! also keeps used memory together and successive large blocks adjacent, as Karakostas 2016, section 4.5.2, wants from
//! sorted free lists. The initial state models the effects of a long history.
//!
//! Memories whose size is no power of two end in blocks of falling order without buddies.
//!
//! State: per order one bit per free and one per used block, and one bit per frame for unmovable blocks: 5 bits per
//! frame in all, 10 MiB for 64 GiB of 4 KiB frames, of which only touched parts are backed. Cost: operations on a block
//! take a constant number of steps per order, and one for each 512 frames; `split` and `join` add the number of pieces
//! / 64.

use super::bitmap::{Bitmap, IndexSet};
use super::{Frame, FrameBlock, MAX_FRAMES, MAX_ORDER};

/// The state of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockState {
    /// Free.
    Free,
    /// Allocated, and movable.
    Movable,
    /// Allocated, and pinned.
    Unmovable,
}

/// Physical memory under the binary buddy system.
///
/// ```
/// use pagewalk_mm::frames::{Buddy, Frame};
///
/// let mut memory = Buddy::new(1000, 10);
/// assert_eq!(memory.largest_free_order(), Some(9));
/// let page = memory.allocate(0);
/// assert_eq!(page, Some(Frame(992)), "the smallest block that suffices: the tail of 8 frames");
/// assert!(memory.allocate_at(Frame(993), 0), "its neighbour");
/// memory.free(Frame(992), 0);
/// memory.free(Frame(993), 0);
/// assert_eq!(memory.free_blocks(3), 1);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buddy {
    frames: u64,
    max_order: u32,
    /// Free blocks by order, as block numbers: the first frame divided by the block's frames.
    pub(super) free: Vec<IndexSet>,
    /// Allocated blocks by order.
    pub(super) used: Vec<Bitmap>,
    /// First frames of unmovable blocks.
    pub(super) unmovable: Bitmap,
    free_frames: u64,
    /// Free frames in each region of 2^[`REGION_ORDER`] frames, so that a search can skip crowded regions.
    pub(super) free_in: Vec<u16>,
}

/// log2 of the frames of a region: a huge page of 2 MiB.
pub(super) const REGION_ORDER: u32 = 9;

impl Buddy {
    /// A memory of `frames` frames, all free, with blocks of up to 2^`max_order`.
    ///
    /// # Panics
    /// If there are more than [`MAX_FRAMES`], or `max_order` is above [`MAX_ORDER`]; [`super::MemorySpec`] checks both.
    pub fn new(frames: u64, max_order: u32) -> Buddy {
        let mut buddy = Buddy::nothing(frames, max_order);
        let mut first = 0;
        while first < frames {
            // Aligned, and inside memory.
            let order = max_order.min(first.trailing_zeros()).min((frames - first).ilog2());
            buddy.put_free(first, order);
            first += 1 << order;
        }
        buddy
    }

    /// A memory whose frames are all allocated singly, and movable.
    pub(super) fn full(frames: u64, max_order: u32) -> Buddy {
        let mut buddy = Buddy::nothing(frames, max_order);
        buddy.used[0].insert_range(0..frames);
        buddy
    }

    /// A memory whose frames are neither free nor allocated.
    fn nothing(frames: u64, max_order: u32) -> Buddy {
        assert!(frames <= MAX_FRAMES, "{frames} frames; at most {MAX_FRAMES}");
        assert!(max_order <= MAX_ORDER, "order {max_order}; at most {MAX_ORDER}");
        let orders = 0..=max_order;
        Buddy {
            frames,
            max_order,
            free: orders.clone().map(|order| IndexSet::new(frames >> order)).collect(),
            used: orders.map(|order| Bitmap::new(frames >> order)).collect(),
            unmovable: Bitmap::new(frames),
            free_frames: 0,
            free_in: vec![0; frames.div_ceil(1 << REGION_ORDER) as usize],
        }
    }

    /// All frames.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// The largest order of a block.
    pub fn max_order(&self) -> u32 {
        self.max_order
    }

    /// Frames in free blocks.
    pub fn free_frames(&self) -> u64 {
        self.free_frames
    }

    /// Allocated frames.
    pub fn used_frames(&self) -> u64 {
        self.frames - self.free_frames
    }

    /// Free blocks of exactly this order; 0 for orders above the largest.
    pub fn free_blocks(&self, order: u32) -> u64 {
        self.free.get(order as usize).map_or(0, IndexSet::len)
    }

    /// The order of the largest free block; `None` if nothing is free.
    pub fn largest_free_order(&self) -> Option<u32> {
        (0..=self.max_order).rev().find(|&order| self.free_blocks(order) > 0)
    }

    /// The share of free memory in blocks too small for a request of `order`: 0 if all free blocks fit, 1 if none does
    /// or nothing is free.
    ///
    /// Gorman and Whitcroft, "The What, The Why and the Where To of Anti-Fragmentation", Ottawa Linux Symposium 2006;
    /// Linux's `unusable_free_index`.
    pub fn unusable_index(&self, order: u32) -> f64 {
        if self.free_frames == 0 {
            return 1.0;
        }
        let usable: u64 = (order..=self.max_order).map(|order| self.free_blocks(order) << order).sum();
        (self.free_frames - usable) as f64 / self.free_frames as f64
    }

    /// The block of a frame, and its state; `None` for frames beyond the memory.
    pub fn block_of(&self, frame: Frame) -> Option<(FrameBlock, BlockState)> {
        if frame.0 >= self.frames {
            return None;
        }
        (0..=self.max_order).find_map(|order| {
            let index = frame.0 >> order;
            let first = index << order;
            let state = if self.free[order as usize].contains(index) {
                BlockState::Free
            } else if !self.used[order as usize].contains(index) {
                return None;
            } else if self.unmovable.contains(first) {
                BlockState::Unmovable
            } else {
                BlockState::Movable
            };
            Some((FrameBlock { first: Frame(first), order }, state))
        })
    }

    /// All blocks by ascending address.
    pub fn blocks(&self) -> impl Iterator<Item = (FrameBlock, BlockState)> + '_ {
        let mut next = Frame(0);
        std::iter::from_fn(move || {
            let (block, state) = self.block_of(next)?;
            next.0 += block.frames();
            Some((block, state))
        })
    }

    /// Allocates a movable block of 2^`order` frames: the lower end of the lowest of the smallest free blocks that
    /// suffice. `None` if no free block is large enough.
    pub fn allocate(&mut self, order: u32) -> Option<Frame> {
        let from = self.smallest_free(order)?;
        self.carve(from.order, from.first, order);
        Some(from.first)
    }

    /// Allocates a movable frame whose number is `color` modulo `colors`: the lowest one in the smallest free block
    /// that has one. `None` if no such frame is free.
    pub fn allocate_color(&mut self, color: u64, colors: u64) -> Option<Frame> {
        let place = (0..=self.max_order).find_map(|order| {
            let blocks = self.free[order as usize].bits().members(0..self.frames >> order);
            blocks.map(|index| index << order).find_map(|first| {
                let step = (color + colors - first % colors) % colors;
                (step < 1 << order).then_some((order, Frame(first + step)))
            })
        });
        let (order, frame) = place?;
        self.carve(order, frame, 0);
        Some(frame)
    }

    /// The free block that serves a request of `order`.
    pub(super) fn smallest_free(&self, order: u32) -> Option<FrameBlock> {
        (order..=self.max_order).find_map(|order| {
            let index = self.free[order as usize].first()?;
            Some(FrameBlock { first: Frame(index << order), order })
        })
    }

    /// Allocates the movable block of 2^`order` frames at `first`, if all of it is free: for promotion in place, and to
    /// continue a run of frames. Otherwise false.
    ///
    /// # Panics
    /// If `first` is no multiple of 2^`order`.
    pub fn allocate_at(&mut self, first: Frame, order: u32) -> bool {
        assert!(is_aligned(first, order), "frame {first} begins no block of order {order}");
        // Free buddies are merged, so a block is free if and only if it lies in one free block.
        let around = (order..=self.max_order).find(|&of| self.free[of as usize].contains(first.0 >> of));
        if let Some(around) = around {
            self.carve(around, first, order);
        }
        around.is_some()
    }

    /// Frees an allocated block.
    ///
    /// # Panics
    /// If no block of this order is allocated at `first`.
    pub fn free(&mut self, first: Frame, order: u32) {
        self.assert_used(first, order);
        self.used[order as usize].remove(first.0 >> order);
        self.unmovable.remove(first.0);
        self.put_free(first.0, order);
    }

    /// Splits an allocated block into 2^(`order` − `to_order`) blocks, for demotion. They stay movable or unmovable.
    ///
    /// # Panics
    /// If no block of this order is allocated at `first`, or `to_order` is above `order`.
    pub fn split(&mut self, first: Frame, order: u32, to_order: u32) {
        self.assert_used(first, order);
        assert!(to_order <= order, "a block of order {order} has no blocks of order {to_order}");
        self.used[order as usize].remove(first.0 >> order);
        let pieces = range_of(first, order, to_order);
        self.used[to_order as usize].insert_range(pieces.clone());
        if self.unmovable.contains(first.0) {
            for piece in pieces {
                self.unmovable.insert(piece << to_order);
            }
        }
    }

    /// Joins allocated blocks of any orders into one, for promotion in place. It is unmovable if one of them is. False,
    /// with nothing changed, if some of its frames are free, do not exist, or belong to a larger block.
    ///
    /// # Panics
    /// If `first` is no multiple of 2^`order`.
    pub fn join(&mut self, first: Frame, order: u32) -> bool {
        assert!(is_aligned(first, order), "frame {first} begins no block of order {order}");
        if order > self.max_order || first.0 + (1 << order) > self.frames {
            return false;
        }
        let pieces = |buddy: &Buddy, of: u32| buddy.used[of as usize].count(range_of(first, order, of)) << of;
        let used: u64 = (0..=order).map(|of| pieces(self, of)).sum();
        if used < 1 << order {
            return false;
        }
        for of in 0..order {
            self.used[of as usize].remove_range(range_of(first, order, of));
        }
        self.used[order as usize].insert(first.0 >> order);
        let all = first.0..first.0 + (1 << order);
        if self.unmovable.any(all.clone()) {
            self.unmovable.remove_range(all);
            self.unmovable.insert(first.0);
        }
        true
    }

    /// Makes an allocated block unmovable: a page table, a buffer that a device writes to.
    ///
    /// # Panics
    /// If no block of this order is allocated at `first`.
    pub fn pin(&mut self, first: Frame, order: u32) {
        self.assert_used(first, order);
        self.unmovable.insert(first.0);
    }

    /// Makes an allocated block movable.
    ///
    /// # Panics
    /// If no block of this order is allocated at `first`.
    pub fn unpin(&mut self, first: Frame, order: u32) {
        self.assert_used(first, order);
        self.unmovable.remove(first.0);
    }

    fn assert_used(&self, first: Frame, order: u32) {
        let used = is_aligned(first, order)
            && self.used.get(order as usize).is_some_and(|used| used.contains(first.0 >> order));
        assert!(used, "no block of order {order} was given out at frame {first}");
    }

    /// Allocates the block of `order` at `first` from the free block of order `around` that holds it.
    fn carve(&mut self, around: u32, first: Frame, order: u32) {
        self.free[around as usize].remove(first.0 >> around);
        for half in order..around {
            self.free[half as usize].insert(first.0 >> half ^ 1);
        }
        self.used[order as usize].insert(first.0 >> order);
        self.count_free(first, order, false);
    }

    /// Removes a free block from the lists; it is then neither free nor allocated.
    pub(super) fn withdraw(&mut self, first: Frame, order: u32) {
        self.free[order as usize].remove(first.0 >> order);
        self.count_free(first, order, false);
    }

    /// Adds a block that is neither free nor allocated to the free ones, merged as far as possible.
    pub(super) fn put_free(&mut self, first: u64, order: u32) {
        self.count_free(Frame(first), order, true);
        let (mut index, mut order) = (first >> order, order);
        while order < self.max_order && self.free[order as usize].remove(index ^ 1) {
            index >>= 1;
            order += 1;
        }
        self.free[order as usize].insert(index);
    }

    /// Updates the count of free frames for a block.
    fn count_free(&mut self, first: Frame, order: u32, free: bool) {
        let frames = 1 << order.min(REGION_ORDER);
        let regions = (first.0 >> REGION_ORDER) as usize..;
        for region in &mut self.free_in[regions][..1 << order.saturating_sub(REGION_ORDER)] {
            *region = if free { *region + frames } else { *region - frames };
        }
        self.free_frames =
            if free { self.free_frames + (1 << order) } else { self.free_frames - (1 << order) };
    }
}

fn is_aligned(first: Frame, order: u32) -> bool {
    order <= first.0.trailing_zeros()
}

/// Numbers of the blocks of order `of` inside the block of order `order` at `first`.
pub(super) fn range_of(first: Frame, order: u32, of: u32) -> std::ops::Range<u64> {
    first.0 >> of..(first.0 + (1 << order)) >> of
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The free blocks of one order, by address.
    fn free(memory: &Buddy, order: u32) -> Vec<u64> {
        let blocks =
            memory.blocks().filter(|(block, state)| block.order == order && *state == BlockState::Free);
        blocks.map(|(block, _)| block.first.0).collect()
    }

    /// Karakostas 2016, section 4.5.2: one page taken out of 2^10 leaves a block of each lower order.
    #[test]
    fn karakostas_2016_remainders_of_a_split() {
        let mut memory = Buddy::new(1 << 10, 10);
        assert_eq!(memory.allocate(0), Some(Frame(0)));
        for order in 0..10 {
            assert_eq!(free(&memory, order), [1 << order]);
        }
        memory.free(Frame(0), 0);
        assert_eq!(free(&memory, 10), [0]);
    }

    #[test]
    fn memories_end_in_blocks_of_falling_order() {
        let memory = Buddy::new(0b1_0110, 3);
        assert_eq!((free(&memory, 3), free(&memory, 2), free(&memory, 1)), (vec![0, 8], vec![16], vec![20]));
        assert_eq!(Buddy::new(0, 10).largest_free_order(), None);
    }

    #[test]
    fn exhaustion_is_an_answer() {
        let mut memory = Buddy::new(6, 20);
        assert_eq!(memory.allocate(3), None);
        assert_eq!(memory.allocate(u32::MAX), None);
        assert_eq!(
            (memory.allocate(2), memory.allocate(1), memory.allocate(0)),
            (Some(Frame(0)), Some(Frame(4)), None)
        );
        assert!(!memory.allocate_at(Frame(6), 0) && !memory.allocate_at(Frame(8), 3));
        assert!(!memory.join(Frame(0), 3) && !memory.join(Frame(8), 0));
        assert_eq!((memory.compact(0), memory.compact(21), memory.unusable_index(0)), (None, None, 1.0));
    }

    #[test]
    #[should_panic(expected = "no block of order 0 was given out at frame 1")]
    fn a_frame_is_not_freed_twice() {
        let mut memory = Buddy::new(8, 3);
        assert!(memory.allocate_at(Frame(1), 0));
        memory.free(Frame(1), 0);
        memory.free(Frame(1), 0);
    }

    #[test]
    #[should_panic(expected = "no block of order 1 was given out at frame 0")]
    fn a_block_is_freed_as_it_was_given_out() {
        let mut memory = Buddy::new(8, 3);
        memory.allocate(2);
        memory.free(Frame(0), 1);
    }
}
