//! Walkers by kind.

use crate::nested::NestedCounts;
use crate::walker::WalkCacheCounts;
use crate::{Asid, HashedWalker, NestedWalker, RadixWalker, WalkerSpec};
use pagewalk_units::{PageSize, VirtAddr};

/// A walker of any kind.
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
    /// A walker with empty caches.
    pub fn new(spec: &WalkerSpec) -> Walker {
        match spec {
            WalkerSpec::Radix(spec) => Walker::Radix(RadixWalker::new(spec)),
            WalkerSpec::Hashed(spec) => Walker::Hashed(HashedWalker::new(spec)),
            WalkerSpec::Nested(spec) => Walker::Nested(Box::new(NestedWalker::new(spec))),
            // The TLB handles mapped tables: see `crate::SoftwareMmu`.
            WalkerSpec::Software | WalkerSpec::Mapped(_) => Walker::Software,
        }
    }

    /// Switches to another address space.
    pub fn enter(&mut self, asid: Asid) {
        match self {
            Walker::Radix(walker) => walker.enter(asid),
            Walker::Hashed(walker) => walker.enter(asid),
            Walker::Nested(walker) => walker.enter(asid),
            Walker::Software => {}
        }
    }

    /// Moves tables in memory to another core's walker of the same kind; caches stay.
    pub fn give_tables(&mut self, to: &mut Walker) {
        match (self, to) {
            (Walker::Radix(own), Walker::Radix(to)) => own.give_tables(to),
            (Walker::Hashed(own), Walker::Hashed(to)) => own.give_tables(to),
            (Walker::Nested(own), Walker::Nested(to)) => own.give_tables(to),
            _ => {}
        }
    }

    /// Drops an address space from its caches.
    pub fn flush(&mut self, asid: Asid) {
        match self {
            Walker::Radix(walker) => walker.flush(asid),
            Walker::Nested(walker) => walker.flush(asid),
            Walker::Hashed(_) | Walker::Software => {}
        }
    }

    /// Walks to the leaf of `address`, mapped at `size`; returns the page-table entries read.
    pub fn walk(&mut self, address: VirtAddr, size: PageSize) -> u32 {
        match self {
            Walker::Radix(walker) => walker.walk(address, size),
            Walker::Hashed(walker) => walker.walk(address, size),
            Walker::Nested(walker) => walker.walk(address, size),
            Walker::Software => 1,
        }
    }

    /// [`Walker::walk`]; appends the physical addresses of the entries read, in order (see `tables.rs`). A handler in
    /// software has no addresses.
    pub fn walk_listing(&mut self, address: VirtAddr, size: PageSize, entries: &mut Vec<u64>) -> u32 {
        match self {
            Walker::Radix(walker) => walker.walk_listing(address, size, entries),
            Walker::Nested(walker) => walker.walk_listing(address, size, entries),
            Walker::Hashed(walker) => walker.walk_listing(address, size, entries),
            Walker::Software => 1,
        }
    }

    /// The translation of an address space's page is no longer valid.
    pub fn invalidate_page(&mut self, asid: Asid, number: u64, size: PageSize) {
        if let Walker::Hashed(walker) = self {
            walker.remove(asid, number, size);
        }
    }

    /// Tables that map some byte of the range may be gone.
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
