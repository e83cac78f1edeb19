//! The two-dimensional walk of a virtual machine.
//!
//! The guest's radix table maps guest-virtual to guest-physical addresses, the host's maps those to system-physical
//! ones. The guest's tables lie in guest-physical memory, so each read of a guest entry needs a host walk first, and
//! the final page needs one more: 4 × (4 + 1) + 4 = 24 references for 4 levels of each without caches.
//!
//! ```text
//!             host walk of its address       guest entry
//!   gL4   nL4   nL3   nL2   nL1    ──────►   gL4
//!   gL3   nL4   nL3   nL2   nL1    ──────►   gL3
//!   gL2   nL4   nL3   nL2   nL1    ──────►   gL2
//!   gL1   nL4   nL3   nL2   nL1    ──────►   gL1
//!   page  nL4   nL3   nL2   nL1
//! ```
//!
//! Caches, all optional, in the order of a walk:
//!
//! 1. Page-walk caches of the guest's levels, by guest-virtual address. A hit skips the guest entries from the root
//!    down to its own, with their host walks.
//! 2. The nested TLB: host translations by guest-physical page. A hit skips a host walk. It serves addresses of guest
//!    tables, and that of the final page only if configured.
//! 3. Page-walk caches of the host's levels, by guest-physical address: as in a native walk.
//! 4. The entry cache: single entries of either dimension that point to tables (never leaves). A hit is no reference.
//!
//! Each looks up and fills as [`RadixWalker`] says.
//!
//! *Placement.* Guest-physical memory is allocated from address 0 upwards in order of first use: a guest table takes
//! one base page at the first walk that reads it, a program's page its own size, aligned, at its first walk. Nothing is
//! freed: returning pages and tables have their old place. A page's first walk comes with its first touch, so the order
//! does not depend on TLBs or caches. The host maps guest-physical memory with pages of one size and never changes it.
//!
//! Sources: Bhargava, Serebrin, Spadini, Manne, "Accelerating Two-Dimensional Page Walks for Virtualized Systems",
//! ASPLOS 2008: the walk, the nested TLB, and a page-walk cache for both dimensions, here the entry cache; AMD64
//! Architecture Programmer's Manual vol. 2, 15.25; Intel SDM vol. 3C, 29.4 (combined mappings: the guest's caches).

use crate::tables::{HOST_TABLES, TABLES};
use crate::{Asid, NestedSpec, RadixWalker, WalkCacheCounts};
use pagewalk_setassoc::SetArray;
use pagewalk_units::{PageSize, VirtAddr};
use rustc_hash::FxHashMap;

/// Page-table entries read, by dimension.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NestedCounts {
    /// In the guest's tables.
    pub guest: u64,
    /// In the host's tables.
    pub host: u64,
}

/// The walker of a guest.
#[derive(Clone, Debug)]
pub struct NestedWalker {
    guest: RadixWalker,
    host: RadixWalker,
    host_page: PageSize,
    /// Whether the nested TLB also serves the program's pages.
    nested_tlb_serves_pages: bool,
    nested_tlb: Option<Cache>,
    entry_cache: Option<Cache>,
    memory: GuestMemory,
    counts: NestedCounts,
    /// The guest's running address space.
    asid: Asid,
    /// Physical addresses of the entries that the last walk read.
    read: Vec<u64>,
}

/// A cache and its counts.
#[derive(Clone, Debug)]
struct Cache {
    array: SetArray,
    counts: WalkCacheCounts,
}

impl Cache {
    fn new(array: SetArray) -> Cache {
        Cache { array, counts: WalkCacheCounts::default() }
    }

    /// Looks up a key in the set of `number`, and fills it after a miss.
    fn look_up(&mut self, number: u64, key: u64) -> bool {
        self.counts.lookups += 1;
        let hit = self.array.touch(number, key);
        if hit {
            self.counts.hits += 1;
        } else {
            self.array.insert(number, key);
        }
        hit
    }
}

/// The owner of an entry's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dimension {
    Guest = 0,
    Host = 1,
}

/// The key of an entry: its address prefix, its level, its dimension.
fn entry_key(dimension: Dimension, height: u32, prefix: u64) -> u64 {
    prefix << 4 | u64::from(height) << 1 | dimension as u64
}

impl NestedWalker {
    /// A walker with empty caches, for a new guest.
    pub fn new(spec: &NestedSpec) -> NestedWalker {
        NestedWalker {
            guest: RadixWalker::new(&spec.guest),
            host: RadixWalker::new(&spec.host).with_tables_at(HOST_TABLES),
            host_page: spec.host_page,
            nested_tlb_serves_pages: spec.nested_tlb.is_some_and(|tlb| tlb.serves_pages),
            nested_tlb: spec.nested_tlb.map(|tlb| Cache::new(tlb.cache.array())),
            entry_cache: spec.entry_cache.map(|cache| Cache::new(cache.array())),
            memory: GuestMemory::default(),
            counts: NestedCounts::default(),
            asid: Asid::default(),
            read: Vec::new(),
        }
    }

    /// Moves the guest's memory and both dimensions' tables to another core's walker.
    pub fn give_tables(&mut self, to: &mut NestedWalker) {
        std::mem::swap(&mut self.memory, &mut to.memory);
        self.guest.give_tables(&mut to.guest);
        self.host.give_tables(&mut to.host);
    }

    /// Switches to another address space of the guest.
    pub fn enter(&mut self, asid: Asid) {
        self.asid = asid;
        self.guest.enter(asid);
    }

    /// Drops cached entries of one guest address space; the host's stay.
    pub fn flush(&mut self, asid: Asid) {
        self.guest.flush(asid);
        if let Some(cache) = &mut self.entry_cache {
            cache.array.remove_where(|key| {
                let (of, key) = Asid::split(key);
                of == asid && key & 1 == Dimension::Guest as u64
            });
        }
    }

    /// Walks to the leaf of `address`, mapped by the guest at `size`; returns the entries read in both dimensions.
    pub fn walk(&mut self, address: VirtAddr, size: PageSize) -> u32 {
        let leaf = self.guest.height_of(size);
        let entries = self.guest.walk(address, size);
        self.read.clear();
        for height in (leaf..leaf + entries).rev() {
            let table = address.0 >> self.guest.shift(height + 1);
            let place = self.memory.place(Guest::Table(self.asid, height, table), self.guest.table_bytes());
            let prefix = address.0 >> self.guest.shift(height);
            let entry = place + prefix % self.guest.table_entries() * 8;
            self.translate(entry, true);
            if height == leaf || !self.entry_held(Dimension::Guest, height, prefix) {
                self.counts.guest += 1;
                self.read.push(TABLES + entry);
            }
        }
        let place = self.memory.place(Guest::Page(self.asid, size, size.number(address)), size.bytes());
        self.translate(place + address.0 % size.bytes(), false);
        self.read.len() as u32
    }

    /// [`NestedWalker::walk`]; appends the physical addresses of the entries read, in order.
    pub fn walk_listing(&mut self, address: VirtAddr, size: PageSize, entries: &mut Vec<u64>) -> u32 {
        let read = self.walk(address, size);
        entries.extend_from_slice(&self.read);
        read
    }

    /// Translates a guest-physical address through the host's tables.
    fn translate(&mut self, address: u64, of_table: bool) {
        if of_table || self.nested_tlb_serves_pages {
            let page = address >> self.host_page.shift();
            if self.nested_tlb.as_mut().is_some_and(|tlb| tlb.look_up(page, page)) {
                return;
            }
        }
        let leaf = self.host.height_of(self.host_page);
        let entries = self.host.walk(VirtAddr(address), self.host_page);
        for height in (leaf..leaf + entries).rev() {
            let prefix = address >> self.host.shift(height);
            if height == leaf || !self.entry_held(Dimension::Host, height, prefix) {
                self.counts.host += 1;
                let entry = self.host.entry(height, address);
                self.read.push(entry);
            }
        }
    }

    /// Whether the entry cache holds an entry that points to a table. The entry's index in its table selects the set,
    /// as its address would.
    fn entry_held(&mut self, dimension: Dimension, height: u32, prefix: u64) -> bool {
        let asid = if dimension == Dimension::Guest { self.asid } else { Asid::default() };
        let key = asid.tag(entry_key(dimension, height, prefix));
        self.entry_cache.as_mut().is_some_and(|cache| cache.look_up(prefix, key))
    }

    /// Drops cached guest entries for a range of guest-virtual addresses; the host's stay.
    pub fn invalidate(&mut self, start: VirtAddr, bytes: u64) {
        self.guest.invalidate(start, bytes);
        let last = start.0 + (bytes - 1);
        let Some(cache) = &mut self.entry_cache else { return };
        cache.array.remove_where(|key| {
            let (asid, key) = Asid::split(key);
            let shift = self.guest.shift((key >> 1 & 7) as u32);
            asid == self.asid
                && key & 1 == Dimension::Guest as u64
                && (start.0 >> shift..=last >> shift).contains(&(key >> 4))
        });
    }

    /// Entries read so far by dimension.
    pub fn entries_read(&self) -> NestedCounts {
        self.counts
    }

    /// Each cache's name and counts: the guest's and the host's, each deepest level first, the nested TLB, the entry
    /// cache.
    pub fn counts(&self) -> impl Iterator<Item = (String, WalkCacheCounts)> + '_ {
        let guest = self.guest.counts().map(|(name, counts)| (name.to_owned(), counts));
        let host = self.host.counts().map(|(name, counts)| (NestedSpec::host_cache_name(name), counts));
        let named = |name: &str, cache: &Option<Cache>| cache.as_ref().map(|c| (name.to_owned(), c.counts));
        let nested_tlb = named(NestedSpec::NESTED_TLB, &self.nested_tlb);
        guest.chain(host).chain(nested_tlb).chain(named(NestedSpec::ENTRY_CACHE, &self.entry_cache))
    }
}

/// A user of guest-physical memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Guest {
    /// A table of this height, by its address prefix.
    Table(Asid, u32, u64),
    /// A page of the program, by its number.
    Page(Asid, PageSize, u64),
}

/// Guest-physical memory, allocated in order of first use.
#[derive(Clone, Debug, Default)]
struct GuestMemory {
    places: FxHashMap<Guest, u64>,
    end: u64,
}

impl GuestMemory {
    /// The first byte of `what`, which takes `bytes`, a power of two.
    fn place(&mut self, what: Guest, bytes: u64) -> u64 {
        *self.places.entry(what).or_insert_with(|| {
            let start = self.end.next_multiple_of(bytes);
            self.end = start + bytes;
            start
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MachineSpec, Walker};

    fn walker(keys: &str) -> NestedWalker {
        let text = format!(
            "schema = 1\nname = \"m\"\n[[tlb]]\nname = \"l1\"\nlevel = 1\nentries = 4\n\
             page_sizes = [\"4K\", \"2M\"]\nserves = [\"fetch\", \"load\", \"store\"]\n\
             [walker]\nkind = \"nested\"\n{keys}[cost]\nwalk_reference = 20\n"
        );
        let machine = MachineSpec::from_toml("m.toml", &text).unwrap_or_else(|error| panic!("{error}"));
        match Walker::new(&machine.walker) {
            Walker::Nested(walker) => *walker,
            other => panic!("{other:?}"),
        }
    }

    const PAGE: VirtAddr = VirtAddr(0x7fff_1234_5000);

    /// Bhargava et al. 2008, section 2.2: 24 references, and fewer with huge pages.
    #[test]
    fn a_walk_without_caches_reads_both_dimensions() {
        for (guest, host_levels, host_page, entries) in [
            (PageSize::FOUR_KIB, 4, "4K", 24),
            (PageSize::TWO_MIB, 4, "4K", 19),
            (PageSize::FOUR_KIB, 4, "2M", 19),
            (PageSize::TWO_MIB, 4, "2M", 15),
            (PageSize::FOUR_KIB, 4, "1G", 14),
            (PageSize::FOUR_KIB, 5, "4K", 29),
        ] {
            let keys =
                format!("levels = 4\nhost = {{ levels = {host_levels}, page_size = \"{host_page}\" }}\n");
            let mut walker = walker(&keys);
            for _ in 0..2 {
                assert_eq!(walker.walk(PAGE, guest), entries, "{guest} on {host_page}");
            }
            let NestedCounts { guest, host } = walker.entries_read();
            assert_eq!(guest + host, 2 * u64::from(entries));
        }
    }

    /// The same paper, section 4: with all guest tables in the nested TLB each of their entries is one reference, and
    /// the last host walk remains: 4 + 4.
    #[test]
    fn the_nested_tlb_saves_the_host_walks_of_tables() {
        let host = "levels = 4\nhost = { levels = 4, page_size = \"4K\" }\n";
        let mut tables = walker(&format!("{host}nested_tlb = {{ entries = 16 }}\n"));
        assert_eq!([tables.walk(PAGE, PageSize::FOUR_KIB), tables.walk(PAGE, PageSize::FOUR_KIB)], [24, 8]);
        let mut all = walker(&format!("{host}nested_tlb = {{ entries = 16, serves_pages = true }}\n"));
        assert_eq!([all.walk(PAGE, PageSize::FOUR_KIB), all.walk(PAGE, PageSize::FOUR_KIB)], [24, 4]);
    }

    /// With all entries that point to tables cached, a walk reads only leaves: the guest's, and the host's of each of
    /// the five host walks.
    #[test]
    fn the_entry_cache_leaves_the_leaves() {
        let host = "levels = 4\nhost = { levels = 4, page_size = \"4K\" }\n";
        let mut walker = walker(&format!("{host}entry_cache = {{ entries = 32 }}\n"));
        // The first walk's five host walks lie in one host table, whose upper entries are read once.
        assert_eq!(walker.walk(PAGE, PageSize::FOUR_KIB), 4 + 5 + 3);
        assert_eq!(walker.walk(PAGE, PageSize::FOUR_KIB), 1 + 5);
        walker.invalidate(PAGE, 4096);
        assert_eq!(walker.walk(PAGE, PageSize::FOUR_KIB), 4 + 5, "the host's entries are still there");
    }
}
