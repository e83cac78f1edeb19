//! The walk of a radix page table with page-walk caches. On x86-64:
//!
//! ```text
//!   56      48 47      39 38      30 29      21 20      12 11        0
//!  ┌──────────┬──────────┬──────────┬──────────┬──────────┬───────────┐
//!  │  PML5E   │  PML4E   │  PDPTE   │   PDE    │   PTE    │  offset   │
//!  └──────────┴──────────┴──────────┴──────────┴──────────┴───────────┘
//! ```
//!
//! A walk reads one entry per level from the root down to the leaf: the PTE of a 4 KiB page, the PDE of a 2 MiB page,
//! the PDPTE of a 1 GiB page. A page-walk cache holds entries of one level that point to tables (never leaves), tagged
//! by the address bits translated so far. Every walk looks up all caches at once (a hit becomes most recent), starts
//! below the deepest hit, and fills the caches that missed. [`RadixFormat`](crate::RadixFormat) has the shapes of other
//! architectures, whose walks are the same.
//!
//! Source: Intel SDM vol. 3A ch. 4; caches by level as in Barr, Cox, Rixner, ISCA 2010 (translation caches).

use crate::tables::{TABLES, Tables};
use crate::{Asid, RadixSpec, WalkCacheSpec, WalkLevel};
use pagewalk_setassoc::{RelevantHits, SetArray};
use pagewalk_units::{PageSize, VirtAddr};

/// Lookups and hits of one page-walk cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WalkCacheCounts {
    /// Walks that looked it up.
    pub lookups: u64,
    /// Walks that hit.
    pub hits: u64,
    /// Entries written.
    pub fills: u64,
}

/// A cache of one level's entries.
#[derive(Clone, Debug)]
struct Cache {
    name: &'static str,
    /// log2 of the bytes that an entry maps.
    shift: u32,
    array: SetArray,
    /// The key looked up last, if another hit of it changes only counts.
    latest: Option<u64>,
    /// Whether that is so with the array's replacement.
    repeats: bool,
    counts: WalkCacheCounts,
}

/// The walker: caches and their counts.
#[derive(Clone, Debug)]
pub struct RadixWalker {
    levels: u32,
    base_shift: u32,
    bits: u32,
    caches: Vec<Cache>,
    /// The running address space.
    asid: Asid,
    tables: Tables,
}

impl RadixWalker {
    /// A walker with empty caches.
    pub fn new(spec: &RadixSpec) -> RadixWalker {
        let format = spec.format;
        let cache = |(&level, cache): (&WalkLevel, &WalkCacheSpec)| Cache {
            name: format.level_name(level),
            shift: format.shift(level),
            array: cache.array(),
            latest: None,
            repeats: cache.replacement.relevant_hits() != RelevantHits::Each,
            counts: WalkCacheCounts::default(),
        };
        RadixWalker {
            levels: spec.levels.into(),
            base_shift: format.paging().base().shift(),
            bits: format.bits(),
            caches: spec.caches.iter().map(cache).collect(),
            asid: Asid::default(),
            tables: Tables::new(TABLES),
        }
    }

    /// Switches to another address space.
    pub fn enter(&mut self, asid: Asid) {
        self.asid = asid;
    }

    /// Moves the tables to another core's walker.
    pub fn give_tables(&mut self, to: &mut RadixWalker) {
        std::mem::swap(&mut self.tables, &mut to.tables);
    }

    /// Drops an address space.
    pub fn flush(&mut self, asid: Asid) {
        for cache in &mut self.caches {
            cache.latest = None;
            cache.array.remove_where(|key| Asid::split(key).0 == asid);
        }
    }

    /// The level of the leaves of pages of `size`: 0 for base pages.
    pub(crate) fn height_of(&self, size: PageSize) -> u32 {
        (size.shift() - self.base_shift) / self.bits
    }

    /// log2 of the bytes that an entry of this height maps.
    pub(crate) fn shift(&self, height: u32) -> u32 {
        self.base_shift + self.bits * height
    }

    /// Entries of a table. A wider root counts as several tables.
    pub(crate) fn table_entries(&self) -> u64 {
        1 << self.bits
    }

    /// Bytes of a table: a base page.
    pub(crate) fn table_bytes(&self) -> u64 {
        1 << self.base_shift
    }

    /// Walks to the leaf of `address`, mapped at `size`; returns the page-table entries read.
    pub fn walk(&mut self, address: VirtAddr, size: PageSize) -> u32 {
        // The leaf's level: without caches a walk reads all levels from the root down to it.
        let leaf = self.height_of(size);
        let mut read = self.levels - leaf;
        for Cache { shift, array, latest, repeats, counts, .. } in &mut self.caches {
            counts.lookups += 1;
            let height = (*shift - self.base_shift) / self.bits;
            if height <= leaf {
                continue; // The walk ends at or above this level, so the cache has nothing to hold.
            }
            let prefix = address.0 >> *shift;
            let key = self.asid.tag(prefix);
            if *latest == Some(key) || array.touch(prefix, key) {
                counts.hits += 1;
                // Only levels below the hit are left to read.
                read = read.min(height - leaf);
            } else {
                array.insert(prefix, key);
                counts.fills += 1;
            }
            *latest = repeats.then_some(key);
        }
        read
    }

    /// The physical address of the entry of this height that maps `address`.
    pub(crate) fn entry(&mut self, height: u32, address: u64) -> u64 {
        let prefix = address >> self.shift(height + 1);
        let table = self.tables.place(self.asid, height, prefix, self.table_bytes());
        table + (address >> self.shift(height)) % self.table_entries() * 8
    }

    /// Places the tables from `start` on.
    pub(crate) fn with_tables_at(self, start: u64) -> RadixWalker {
        RadixWalker { tables: Tables::new(start), ..self }
    }

    /// [`RadixWalker::walk`]; appends the physical addresses of the entries read, in order.
    pub fn walk_listing(&mut self, address: VirtAddr, size: PageSize, entries: &mut Vec<u64>) -> u32 {
        let leaf = self.height_of(size);
        let read = self.walk(address, size);
        entries.extend((leaf..leaf + read).rev().map(|height| self.entry(height, address.0)));
        read
    }

    /// Drops every cached entry that maps some byte of the range: its tables may be gone.
    pub fn invalidate(&mut self, start: VirtAddr, bytes: u64) {
        let last = start.0 + (bytes - 1);
        for Cache { shift, array, latest, .. } in &mut self.caches {
            *latest = None;
            let covered = start.0 >> *shift..=last >> *shift;
            array.remove_where(|key| {
                let (asid, prefix) = Asid::split(key);
                asid == self.asid && covered.contains(&prefix)
            });
        }
    }

    /// Each cache's name and counts, deepest level first.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, WalkCacheCounts)> + '_ {
        self.caches.iter().map(|cache| (cache.name, cache.counts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RadixFormat;

    fn read(format: RadixFormat, levels: u8, size: &str) -> u32 {
        let spec = RadixSpec { format, levels, caches: Default::default() };
        RadixWalker::new(&spec).walk(VirtAddr(0x7fff_1234_5678), size.parse().unwrap())
    }

    /// Lookup levels of the Arm manual's table D8-14 and of the RISC-V manual's leaves.
    #[test]
    fn a_walk_reads_one_entry_of_each_level() {
        use RadixFormat::*;
        for (format, levels, size, entries) in [
            (X86_64, 4, "4K", 4),
            (X86_64, 5, "2M", 4),
            (X86_64, 4, "1G", 2),
            (Aarch64With4K, 4, "64K", 4),
            (Aarch64With4K, 4, "32M", 3),
            (Aarch64With16K, 4, "16K", 4),
            (Aarch64With16K, 3, "2M", 3),
            (Aarch64With16K, 3, "32M", 2),
            (Aarch64With16K, 4, "1G", 3),
            (Aarch64With64K, 3, "64K", 3),
            (Aarch64With64K, 2, "512M", 1),
            (Aarch64With64K, 3, "16G", 2),
            (RiscVSv39, 3, "1G", 1),
            (RiscVSv48, 4, "512G", 1),
            (RiscVSv57, 5, "4K", 5),
        ] {
            assert_eq!(read(format, levels, size), entries, "{size} on {format} of {levels} levels");
        }
    }
}
