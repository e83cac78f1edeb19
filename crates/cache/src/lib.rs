//! A simple cache hierarchy for the program's references and for the references of page walks.
//!
//! Design constraints: knows physical addresses only, no pages and no TLBs; counts hits and prices them, nothing else.
//!
//! An access looks up one cache per level, the one that serves its requester, until a cache has the line; memory has
//! every line. All caches that missed are filled (inclusive fill, without back-invalidation). The latency of an access
//! is the latency of the cache that hit, or of memory. Not modelled: the difference between reads and writes,
//! write-backs, prefetching, queues, overlap between accesses, and line sizes that differ between caches.

mod hierarchy;
mod spec;

pub use hierarchy::{CacheCounts, DataSource, Hierarchy};
pub use spec::{CacheError, CacheSpec, Requester, RequesterSet, check};
