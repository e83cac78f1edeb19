//! Physical memory: frames, the buddy allocator, and a kernel's operations on blocks of frames.
//!
//! Design constraints: it knows no page table, no policy and no clock. It is a mechanism that returns results (a block,
//! a list of moves, nothing); the caller updates its page tables and charges cycles. It is deterministic: the state
//! depends only on the operations and the seed. It opens no file.
//!
//! [`MemorySpec`] describes a memory and its initial state and builds a [`Buddy`].
//! `docs/explanation/physical-memory.md` explains the model, its parameters and their sources.

mod bitmap;
mod buddy;
mod buddyinfo;
mod compaction;
mod eager;
mod endless;
mod error;
mod file;
mod initial_state;
mod reservation;
mod sample;
mod spec;

pub use buddy::{BlockState, Buddy};
pub use buddyinfo::{BuddyInfo, BuddyInfoError};
pub use compaction::{Compaction, Move};
pub(crate) use endless::EndlessFrames;
pub use error::MemoryError;
pub use file::MemoryKey;
pub use reservation::{BrokenReservation, Reservation, Reservations};
pub use spec::{Initial, MemorySpec};

use std::fmt;

/// The largest order of a block: 2^20 frames, 4 GiB of 4 KiB frames.
///
/// Karakostas 2016, section 4.5.2, needed blocks of order 19 (Linux's exclusive `MAX_ORDER` of 20).
pub const MAX_ORDER: u32 = 20;

/// The most frames that a memory may have: 16 TiB of 4 KiB frames.
pub const MAX_FRAMES: u64 = 1 << 32;

/// A physical base page by its number: the physical address divided by the frame size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frame(pub u64);

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// 2^`order` frames that begin at a multiple of their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameBlock {
    /// The lowest frame.
    pub first: Frame,
    /// log2 of the frames.
    pub order: u32,
}

impl FrameBlock {
    /// The number of frames.
    pub fn frames(self) -> u64 {
        1 << self.order
    }

    /// Whether it contains `frame`.
    pub fn contains(self, frame: Frame) -> bool {
        frame.0 >> self.order == self.first.0 >> self.order
    }
}

/// A base page's move to another frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameMove {
    /// Its frame before.
    pub from: Frame,
    /// Its frame now.
    pub to: Frame,
}
