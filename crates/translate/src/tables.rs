//! Where page tables lie in physical memory: a model, for caches that hold page-table entries.
//!
//! The program's own memory is taken to lie at its virtual addresses, that of several address spaces one behind the
//! other. Page tables lie above all of them, each kind in a range of its own:
//!
//! - Tables of a radix walker take one base page each, in order of first use: the first table that a walk reads lies at
//!   [`TABLES`], the next behind it. Entries have 8 bytes and lie in the order of the addresses that they map.
//! - The memory of a guest lies behind [`TABLES`] as the guest sees it, tables included; tables of the host lie from
//!   [`HOST_TABLES`] on, as those of a radix walker do.
//! - The buckets of a hashed table lie in the order of their numbers from [`TABLES`] on, each on as many bytes as its
//!   entries of 16 bytes take, rounded up to a power of two. All buckets that continue others once follow, then those
//!   that continue these, and so on. A walk accesses each bucket once, at its first byte.
//!
//! Tables that are no longer needed keep their place for when they come again.

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
    /// By address space, height and the prefix of the addresses that the table maps.
    numbers: FxHashMap<(Asid, u32, u64), u64>,
}

impl Tables {
    /// No tables yet; the first will lie at `start`.
    pub fn new(start: u64) -> Tables {
        Tables { start, numbers: FxHashMap::default() }
    }

    /// The first byte of a table of so many bytes.
    pub fn place(&mut self, asid: Asid, height: u32, prefix: u64, bytes: u64) -> u64 {
        let next = self.numbers.len() as u64;
        self.start + *self.numbers.entry((asid, height, prefix)).or_insert(next) * bytes
    }
}
