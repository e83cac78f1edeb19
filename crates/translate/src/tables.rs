//! A model of the placement of page tables in physical memory, for caches of memory.
//!
//! The program's memory lies at its virtual addresses; several address spaces lie one after the other. Page tables lie
//! above, each kind in its own range:
//!
//! - A radix walker's tables take one base page each, in order of first use, from [`TABLES`] on. Entries have 8 bytes
//!   and lie in the order of the addresses that they map.
//! - A guest's memory, including its tables, lies from [`TABLES`] on as the guest sees it; the host's tables lie from
//!   [`HOST_TABLES`] on, like a radix walker's.
//! - A hashed table's buckets lie in order from [`TABLES`] on; each takes the bytes of its 16-byte entries, rounded up
//!   to a power of two. All first continuations follow, then all second ones, and so on. A walk accesses each bucket
//!   once, at its first byte.
//!
//! Unused tables keep their place for later use.

use crate::Asid;
use rustc_hash::FxHashMap;

/// The first byte of page tables, above all virtual addresses.
pub(crate) const TABLES: u64 = 1 << 63;
/// The first byte of a host's page tables.
pub(crate) const HOST_TABLES: u64 = 3 << 62;

/// Tables in order of first use.
#[derive(Clone, Debug)]
pub(crate) struct Tables {
    start: u64,
    /// Table numbers by address prefix, height and address space in one word.
    numbers: FxHashMap<u64, u64>,
}

impl Tables {
    /// No tables; the first will lie at `start`.
    pub fn new(start: u64) -> Tables {
        Tables { start, numbers: FxHashMap::default() }
    }

    /// The first byte of a table of `bytes`.
    pub fn place(&mut self, asid: Asid, height: u32, prefix: u64, bytes: u64) -> u64 {
        let next = self.numbers.len() as u64;
        // A prefix lacks the bits of a page and of one level at least.
        let key = prefix << 16 | u64::from(height) << 8 | asid.index() as u64;
        self.start + *self.numbers.entry(key).or_insert(next) * bytes
    }
}
