//! An endless memory: a free frame of every color always exists (Romer 1998, section 4.3.2).

use super::Frame;
use crate::Superpage;
use crate::placement::Colors;
use rustc_hash::FxHashMap;

/// log2 of the frames that a process has of each order.
const ORDER_BITS: u32 = 32;
/// log2 of the frames that a process has.
const PROCESS_BITS: u32 = ORDER_BITS + 4;

/// The frames of a process in an endless memory. No two pages, and no two processes, ever share a frame.
#[derive(Clone, Debug, Default)]
pub(crate) struct EndlessFrames {
    /// The number of its first frame.
    start: u64,
    /// The first frame of those given by color: frames before it are listed.
    colored: u64,
    /// Frames given by color.
    given: FxHashMap<u64, u64>,
    /// Blocks given by order.
    blocks: [u64; 1 << (PROCESS_BITS - ORDER_BITS)],
    frames: FxHashMap<u64, Frame>,
}

impl EndlessFrames {
    /// The frames of the process with this number. Those before `listed_end`, at most 2^32, are given as
    /// [listed](EndlessFrames::give_listed) only.
    pub fn of_process(number: u32, listed_end: u64) -> EndlessFrames {
        let start = u64::from(number) << PROCESS_BITS;
        EndlessFrames { start, colored: start.max(listed_end), ..EndlessFrames::default() }
    }

    /// The frame of a page, if it has one.
    pub fn get(&self, page: u64) -> Option<Frame> {
        self.frames.get(&page).copied()
    }

    /// Gives a page a new frame of a color.
    pub fn give(&mut self, page: u64, color: u64, colors: Colors) -> Frame {
        let given = self.given.entry(color).or_default();
        let start = self.colored.next_multiple_of(colors.count);
        let frame = Frame(start + *given * colors.count + color);
        *given += 1;
        self.frames.insert(page, frame);
        frame
    }

    /// Gives a superpage a new aligned block. Successive blocks of an order cycle through the colors (Romer 1998,
    /// section 6.6.1).
    pub fn give_block(&mut self, block: Superpage) {
        let order = block.order as usize;
        let region = self.start + ((order as u64) << ORDER_BITS);
        let first = region + (self.blocks[order] << block.order);
        self.blocks[order] += 1;
        self.give_listed(block, Frame(first));
    }

    /// Gives a page or superpage its frames in a list.
    pub fn give_listed(&mut self, unit: Superpage, first: Frame) {
        self.frames.extend(unit.pages().zip((first.0..).map(Frame)));
    }

    /// Takes the frames of a block back.
    pub fn take_back(&mut self, block: Superpage) {
        for page in block.pages() {
            self.frames.remove(&page);
        }
    }
}
