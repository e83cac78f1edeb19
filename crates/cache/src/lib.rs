//! A simple cache hierarchy for the program's references and for the references of page walks.
//!
//! Design constraints: knows physical addresses only, no pages and no TLBs; counts hits and prices them, nothing else.
//!
//! An access looks up one cache per level, the one that serves its requester, until a cache has the line; memory has
//! every line. All caches that missed are filled (inclusive fill, without back-invalidation), but for victim caches.
//! The latency of an access is the latency of the cache that hit, or of memory.
//!
//! Stores end at the first write-back cache that has the line, and allocate it; a write-through cache passes them on
//! and allocates nothing for them. Not modelled: traffic of write-backs, full write buffers, prefetching, queues,
//! overlap between accesses, and line sizes that differ between caches.

mod hierarchy;
mod spec;

pub use hierarchy::{CacheAddress, CacheCounts, DataSource, Hierarchy, LineMiss};
pub use spec::{AddressUsed, CacheError, CacheFills, CacheSpec, Requester, RequesterSet, StoreRule, check};
