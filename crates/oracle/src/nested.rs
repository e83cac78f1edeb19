//! Reference model of two-dimensional walks: a guest's memory and its host's page table.

use crate::Cache;
use crate::machine::SPACE;
use std::collections::BTreeMap;

/// The host's side of a two-dimensional walk.
#[derive(Clone, Debug)]
pub struct Nested {
    /// Number of levels of the host's page table.
    pub levels: u32,
    /// log2 of the host's page size.
    pub page: u32,
    /// The host's page-walk caches.
    pub caches: Vec<Cache>,
    /// The cache of host translations (nested TLB); its shift is the host's page shift.
    pub nested_tlb: Option<Cache>,
    /// Whether the nested TLB also holds translations of the program's pages, not only of page tables.
    pub serves_pages: bool,
    /// The cache of entries that point to tables. A key is 1,000 times the prefix, plus log2 of the bytes that the
    /// entry maps, plus 500 for host entries; keys of guest entries also contain the address space.
    pub entry_cache: Option<Cache>,
    /// Guest-physical addresses of tables (false) and pages (true), by address space, log2 of the bytes that they map,
    /// and prefix.
    pub places: BTreeMap<(u64, bool, u32, u64), u64>,
    /// Addresses of the host's tables, by log2 of the bytes that an entry maps, and prefix.
    pub host_tables: BTreeMap<(u32, u64), u64>,
    /// The addresses that the last walk read.
    pub read: Vec<u64>,
    /// The first unallocated address.
    pub end: u64,
    /// Number of guest entries read.
    pub guest: u64,
    /// Number of host entries read.
    pub host: u64,
}

impl Nested {
    /// The address of a table or page; allocates the next address at first use.
    fn place(&mut self, what: (u64, bool, u32, u64), bytes: u64) -> u64 {
        if let Some(&place) = self.places.get(&what) {
            return place;
        }
        while !self.end.is_multiple_of(bytes) {
            self.end += 1 << 12;
        }
        self.places.insert(what, self.end);
        self.end += bytes;
        self.end - bytes
    }

    /// Reads the guest's entries (log2 of the bytes that each maps, root first) of an address mapped at 2^`shift`
    /// bytes; returns the addresses of all entries of both sides that were read.
    pub fn walk(&mut self, space: u64, entries: &[u32], address: u64, shift: u32) -> Vec<u64> {
        self.read.clear();
        for &entry in entries {
            let table = self.place((space, false, entry + 9, address >> (entry + 9)), 4096);
            let place = table + (address >> entry) % 512 * 8;
            self.translate(place, true);
            if entry == shift || !self.entry_held(space, address >> entry, entry) {
                self.guest += 1;
                self.read.push((1 << 63) + place);
            }
        }
        let page = self.place((space, true, shift, address >> shift), 1 << shift);
        self.translate(page + address % (1 << shift), false);
        self.read.clone()
    }

    fn translate(&mut self, address: u64, of_table: bool) {
        let tlb = self.nested_tlb.as_mut().filter(|_| of_table || self.serves_pages);
        if tlb.is_some_and(|tlb| tlb.look_up(0, address >> self.page)) {
            return;
        }
        let mut entries: Vec<u32> =
            (0..self.levels).map(|i| 12 + 9 * i).filter(|&s| s >= self.page).rev().collect();
        for cache in &mut self.caches {
            if cache.shift > self.page && cache.look_up(0, address >> cache.shift) {
                entries.retain(|&entry| entry < cache.shift);
            } else if cache.shift <= self.page {
                cache.lookups += 1;
            }
        }
        for entry in entries {
            if entry == self.page || !self.entry_held(0, address >> entry, 500 + entry) {
                self.host += 1;
                let next = (3 << 62) + self.host_tables.len() as u64 * 4096;
                let table = *self.host_tables.entry((entry, address >> (entry + 9))).or_insert(next);
                self.read.push(table + (address >> entry) % 512 * 8);
            }
        }
    }

    fn entry_held(&mut self, space: u64, prefix: u64, kind: u32) -> bool {
        let key = (space << SPACE) + prefix * 1000 + u64::from(kind);
        self.entry_cache.as_mut().is_some_and(|cache| cache.look_up_key(prefix, key))
    }

    /// Drops guest entries that map any byte of `[start, end)`.
    pub fn drop_tables(&mut self, space: u64, start: u64, end: u64) {
        if let Some(cache) = &mut self.entry_cache {
            cache.held.remove_where(|key| {
                let own = key >> SPACE == space;
                let key = key % (1 << SPACE);
                let (prefix, shift) = (key / 1000, key % 1000);
                let bytes = if shift < 500 { 1 << shift } else { 0 };
                own && bytes > 0 && (prefix + 1) * bytes > start && prefix * bytes < end
            });
        }
    }

    /// Drops all guest entries of one address space.
    pub fn flush(&mut self, space: u64) {
        if let Some(cache) = &mut self.entry_cache {
            cache.held.remove_where(|key| key >> SPACE == space && key % (1 << SPACE) % 1000 < 500);
        }
    }
}
