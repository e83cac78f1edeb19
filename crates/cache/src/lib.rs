//! A simple hierarchy of caches, for the program's references and for those of page walks.
//!
//! Design constraints: knows physical addresses only, no pages and no TLBs; counts hits and prices them, nothing else.
//!
//! An access looks up level by level, at each the one cache that serves its requester, and ends at the first that
//! has the line; memory has every line. All caches that it looked up and that missed are filled (inclusive fill,
//! without back-invalidation). Its latency is that of where it ended alone. What is left out: writes and reads are
//! alike, nothing is written back; no prefetching, no queues, no overlap between accesses; lines are of one size in
//! all caches.

mod hierarchy;
mod spec;

pub use hierarchy::{CacheCounts, DataSource, Hierarchy};
pub use spec::{CacheError, CacheSpec, Requester, RequesterSet, check};
