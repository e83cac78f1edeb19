//! The walk of a hashed page table.
//!
//! The table has a power-of-two number of *buckets*. A bucket holds a few page-table entries and a pointer to a
//! continuation, so that each hash value has a chain of buckets. The rules:
//!
//! - The page's number, at its mapped size, selects the chain by a [`SetIndex`]. The size is known before the walk, as
//!   on PowerPC from the segment, so a walk searches one chain.
//! - A walk reads the chain's buckets in order up to the one that holds the page. Each bucket is one page-table read of
//!   at most a cache line, such as PowerPC's group of eight entries of 16 bytes. With one entry per bucket this is
//!   PA-RISC's chained table.
//! - The kernel puts a page's entry into the first free slot of its chain before the page's first walk, and removes it
//!   when the page is unmapped, discarded, reprotected or resized. Later entries of the chain stay in place; the next
//!   new entry takes the free slot.
//!
//! One table holds the pages of all address spaces on a processor. It has no upper levels, so there are no page-walk
//! caches. Not modelled: PowerPC's second hash instead of chains, and clustered entries.
//!
//! Sources: Huck, Hays, "Architectural Support for Translation Table Management in Large Address Space Machines",
//! ISCA 1993: the hashed table with chains. Yaniv, Tsafrir, "Hash, Don't Cache (the Page Table)", SIGMETRICS 2016:
//! buckets of a cache line, so that a walk is about one reference. PowerPC Architecture Book III: groups of
//! eight.

use crate::tables::TABLES;
use crate::{Asid, HashedSpec, page_key};
use pagewalk_setassoc::{Geometry, SetIndex};
use pagewalk_units::{PageSize, VirtAddr};
use rustc_hash::FxHashMap;

/// A free slot; never a page's key.
const FREE: u64 = u64::MAX;

/// Bytes of an entry, including its page's number.
const ENTRY_BYTES: u64 = 16;

/// A hashed page table with entries of walked pages.
#[derive(Clone, Debug)]
pub struct HashedWalker {
    /// One set per bucket.
    buckets: Geometry,
    index: SetIndex,
    entries_per_bucket: usize,
    /// The slots of each chain in use, in order.
    chains: FxHashMap<usize, Vec<u64>>,
    /// The running address space.
    asid: Asid,
}

impl HashedWalker {
    /// An empty table.
    pub fn new(spec: &HashedSpec) -> HashedWalker {
        HashedWalker {
            buckets: spec.buckets,
            index: spec.index,
            entries_per_bucket: spec.entries_per_bucket as usize,
            chains: FxHashMap::default(),
            asid: Asid::default(),
        }
    }

    /// Moves the table to another core's walker.
    pub fn give_tables(&mut self, to: &mut HashedWalker) {
        std::mem::swap(&mut self.chains, &mut to.chains);
    }

    /// Switches to another address space.
    pub fn enter(&mut self, asid: Asid) {
        self.asid = asid;
    }

    fn chain(&mut self, number: u64) -> &mut Vec<u64> {
        self.chains.entry(self.index.set_of(self.buckets, number)).or_default()
    }

    /// Walks to the entry of `address`, mapped at `size`; returns the buckets read.
    pub fn walk(&mut self, address: VirtAddr, size: PageSize) -> u32 {
        let number = size.number(address);
        let key = self.asid.tag(page_key(number, size));
        let per_bucket = self.entries_per_bucket;
        let chain = self.chain(number);
        let place = chain.iter().position(|&held| held == key).unwrap_or_else(|| {
            let free = chain.iter().position(|&held| held == FREE).unwrap_or_else(|| {
                chain.push(FREE);
                chain.len() - 1
            });
            chain[free] = key;
            free
        });
        u32::try_from(place / per_bucket + 1).expect("fewer than 2^32 pages")
    }

    /// [`HashedWalker::walk`]; appends the physical addresses of the buckets read, in order.
    pub fn walk_listing(&mut self, address: VirtAddr, size: PageSize, entries: &mut Vec<u64>) -> u32 {
        let read = self.walk(address, size);
        let bucket = self.index.set_of(self.buckets, size.number(address)) as u64;
        let bytes = (self.entries_per_bucket as u64 * ENTRY_BYTES).next_power_of_two();
        let buckets = self.buckets.sets() as u64;
        entries.extend((0..u64::from(read)).map(|link| TABLES + (link * buckets + bucket) * bytes));
        read
    }

    /// Removes the entry of an address space's page from the table; that of a global page as the running space has it.
    pub fn remove(&mut self, asid: Asid, number: u64, size: PageSize) {
        let asid = if asid == Asid::GLOBAL { self.asid } else { asid };
        let key = asid.tag(page_key(number, size));
        let chain = self.chain(number);
        if let Some(place) = chain.iter().position(|&held| held == key) {
            chain[place] = FREE;
        }
        while chain.last() == Some(&FREE) {
            chain.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_reads_the_chain_up_to_its_page() {
        let spec = HashedSpec {
            buckets: Geometry::new(4, Some(1)).unwrap(),
            entries_per_bucket: 2,
            index: SetIndex::Modulo,
        };
        let mut table = HashedWalker::new(&spec);
        let walk = |table: &mut HashedWalker, page: u64| table.walk(VirtAddr(page << 12), PageSize::FOUR_KIB);
        // Pages 1, 5, 9 … share a chain, two per bucket.
        assert_eq!([1, 5, 9, 13, 17].map(|page| walk(&mut table, page)), [1, 1, 2, 2, 3]);
        assert_eq!([17, 13, 2].map(|page| walk(&mut table, page)), [3, 2, 1]);
        // Entries after a removed one stay, and the next new entry takes its slot.
        table.remove(Asid::default(), 5, PageSize::FOUR_KIB);
        assert_eq!([9, 17, 21, 5].map(|page| walk(&mut table, page)), [2, 3, 1, 3]);
        // A large page has its entry in the chain of its own number.
        assert_eq!(table.walk(VirtAddr(1 << 21), PageSize::TWO_MIB), 4);
        // Another address space's entry of the same number stays.
        table.remove(Asid::new(1).unwrap(), 21, PageSize::FOUR_KIB);
        table.remove(Asid::GLOBAL, 9, PageSize::FOUR_KIB);
        assert_eq!([21, 25].map(|page| walk(&mut table, page)), [1, 2]);
    }
}
