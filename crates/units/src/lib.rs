//! The basic types of pagewalk: addresses, page sizes, access kinds and ids; [`names`], for messages about unknown
//! names; [`quantities`], for numbers that people write; [`processors`], for lists of the kernel; and [`inheritance`],
//! for what programs inherit.
//!
//! Design constraints: depends on no other crate of pagewalk; the types do not allocate; and different units have
//! different types, so that a page number cannot be used as an address.

pub mod inheritance;
pub mod names;
pub mod processors;
pub mod quantities;

mod access;
mod address;
mod draws;
mod page_size;
mod paging;

pub use access::{Access, Kind, Size};
pub use address::{PAGE_BYTES, PAGE_SHIFT, VirtAddr, Vpn};
pub use draws::{Draws, mixed};
pub use page_size::{PageSize, ParsePageSizeError};
pub use paging::Paging;

/// One address space (a process image between two `exec`s).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpaceId(pub u32);

/// One thread of a process, numbered as the capture engine numbers it (1 is the first).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadId(pub u32);

/// One block of the block dictionary: instructions that were executed one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub u32);

impl BlockId {
    /// The id as an index into the dictionary.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The position of a data reference in its stream: the number of data references before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RefIndex(pub u64);
