//! Walkers by kind.

use crate::nested::NestedCounts;
use crate::walker::WalkCacheCounts;
use crate::{Asid, HashedWalker, NestedWalker, RadixWalker, WalkerSpec};
use pagewalk_units::{PageSize, VirtAddr};

/// Whatever finds the translation that no TLB has.
#[derive(Clone, Debug)]
pub enum Walker {
    /// Hardware that walks a radix table.
    Radix(RadixWalker),
    /// Hardware that searches a hashed table.
    Hashed(HashedWalker),
    /// Hardware that walks a guest's radix table through its host's.
    Nested(Box<NestedWalker>),
    /// A handler in software, which loads one entry from a table that it reaches without a walk of its own, as
    /// the linear tables of MIPS and Alpha are while their own pages are in the TLB.
    Software,
}

impl Walker {
    /// A walker that knows nothing yet.
    pub fn new(spec: &WalkerSpec) -> Walker {
        match spec {
            WalkerSpec::Radix(spec) => Walker::Radix(RadixWalker::new(spec)),
            WalkerSpec::Hashed(spec) => Walker::Hashed(HashedWalker::new(spec)),
            WalkerSpec::Nested(spec) => Walker::Nested(Box::new(NestedWalker::new(spec))),
            // Mapped tables are those of the TLB: see `crate::SoftwareMmu`.
            WalkerSpec::Software | WalkerSpec::Mapped(_) => Walker::Software,
        }
    }

    /// From now on addresses are those of this address space.
    pub fn enter(&mut self, asid: Asid) {
        match self {
            Walker::Radix(walker) => walker.enter(asid),
            Walker::Hashed(walker) => walker.enter(asid),
            Walker::Nested(walker) => walker.enter(asid),
            Walker::Software => {}
        }
    }

    /// Hands what lies in memory to another core's walker of the same kind. What a core caches for itself stays.
    pub fn give_tables(&mut self, to: &mut Walker) {
        match (self, to) {
            (Walker::Radix(own), Walker::Radix(to)) => own.give_tables(to),
            (Walker::Hashed(own), Walker::Hashed(to)) => own.give_tables(to),
            (Walker::Nested(own), Walker::Nested(to)) => own.give_tables(to),
            _ => {}
        }
    }

    /// Drops everything that it caches of an address space.
    pub fn flush(&mut self, asid: Asid) {
        match self {
            Walker::Radix(walker) => walker.flush(asid),
            Walker::Nested(walker) => walker.flush(asid),
            Walker::Hashed(_) | Walker::Software => {}
        }
    }

    /// Finds the translation of `address`, mapped at `size`; returns the page-table reads that it took.
    pub fn walk(&mut self, address: VirtAddr, size: PageSize) -> u32 {
        match self {
            Walker::Radix(walker) => walker.walk(address, size),
            Walker::Hashed(walker) => walker.walk(address, size),
            Walker::Nested(walker) => walker.walk(address, size),
            Walker::Software => 1,
        }
    }

    /// [`Walker::walk`] that appends the physical addresses of what it read, in order: `tables.rs` says where
    /// tables lie. A handler in software has no addresses.
    pub fn walk_listing(&mut self, address: VirtAddr, size: PageSize, entries: &mut Vec<u64>) -> u32 {
        match self {
            Walker::Radix(walker) => walker.walk_listing(address, size, entries),
            Walker::Nested(walker) => walker.walk_listing(address, size, entries),
            Walker::Hashed(walker) => walker.walk_listing(address, size, entries),
            Walker::Software => 1,
        }
    }

    /// Tells that the translation of the page with this number at `size` is no longer valid.
    pub fn invalidate_page(&mut self, number: u64, size: PageSize) {
        if let Walker::Hashed(walker) = self {
            walker.remove(number, size);
        }
    }

    /// Tells that tables which map some byte of the range may be gone.
    pub fn invalidate(&mut self, start: VirtAddr, bytes: u64) {
        match self {
            Walker::Radix(walker) => walker.invalidate(start, bytes),
            Walker::Nested(walker) => walker.invalidate(start, bytes),
            Walker::Hashed(_) | Walker::Software => {}
        }
    }

    /// Entries read by dimension, if there are two.
    pub fn nested_entries_read(&self) -> Option<NestedCounts> {
        if let Walker::Nested(walker) = self { Some(walker.entries_read()) } else { None }
    }

    /// Each page-walk cache's name and counts, in the order of [`WalkerSpec::caches`].
    pub fn counts(&self) -> Vec<(String, WalkCacheCounts)> {
        match self {
            Walker::Radix(walker) => {
                walker.counts().map(|(name, counts)| (name.to_owned(), counts)).collect()
            }
            Walker::Nested(walker) => walker.counts().collect(),
            Walker::Hashed(_) | Walker::Software => Vec::new(),
        }
    }
}
