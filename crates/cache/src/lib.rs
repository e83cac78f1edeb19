//! A simple cache hierarchy for the program's references and for the references of page walks.
//!
//! Design constraints: knows addresses only, no pages and no TLBs; counts hits and prices them, nothing else.
//!
//! An access looks up one cache per level, the one that serves its requester, until a cache has the line; memory has
//! every line. Lines may grow from level to level. All caches that missed are filled, but for victim caches, which take
//! what others evict. The latency of an access is the latency of the cache that hit, or of memory.
//!
//! Stores end at the first write-back cache that has the line, and allocate it; a write-through cache passes them on
//! and allocates nothing for them. A dirty line that leaves its cache makes the next cache's copy dirty, or goes to
//! memory; that takes no time, and is no lookup. A store that a write-through cache passes on may wait for a place in
//! its write buffer, whose clock the caller sets. Not modelled: prefetching, other queues, and overlap of accesses.

mod access_log;
mod address;
mod cache;
mod check;
mod column;
mod hierarchy;
mod lanes;
mod lines;
mod path;
mod place;
mod recent_lines;
mod slices;
mod slots;
mod spec;
mod stack;
mod stamps;
mod write_buffer;

pub use access_log::LineAccess;
pub use address::CacheAddress;
pub use check::{CacheError, check};
pub use hierarchy::{
    CacheCounts, DataSource, Hierarchy, HierarchyCounts, Hits, PartLines, Parts, PassedLine,
    shares_first_level,
};
pub use spec::{
    AddressUsed, CacheFills, CacheOrganisation, CacheSpec, LEVELS, NoColors, Requester, RequesterSet,
    StoreRule,
};
pub use stamps::{Accesses, ByteAccess, RecordLines};
pub use write_buffer::WriteBufferSpec;
