//! The page cache: file pages in memory, and this process's mappings of them.
//!
//! It tracks only pages that must be read first: with a warm cache, all file pages are in memory, in frames used from
//! the start.

use super::memory::CACHED;
use crate::{MappingId, Vma};
use pagewalk_units::PageSize;
use rustc_hash::FxHashMap;

/// Rules of mapping files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileRules {
    /// Whether the cache is empty at the start.
    pub cold: bool,
    /// Base pages around a faulting load to map with it if they are in memory: at least 1.
    pub around: u64,
    /// Base pages to read together if one is not in memory: at least 1.
    pub read_ahead: u64,
    /// Cycles per read.
    pub read_cycles: u64,
}

impl FileRules {
    /// Linux's rules for base pages of this size: `fault_around_bytes` 64 KiB, `read_ahead_kb` 128; a warm cache. A
    /// read takes 100 µs at 3 GHz, for a current solid-state disk; chosen.
    pub fn linux(base: PageSize) -> FileRules {
        let pages = |bytes: u64| (bytes / base.bytes()).max(1);
        FileRules { cold: false, around: pages(64 << 10), read_ahead: pages(128 << 10), read_cycles: 300_000 }
    }
}

/// A page of a file: the file, and the offset of its first byte.
pub(super) type FilePage = (MappingId, u64);

/// The file offset of a page of an area.
pub(super) fn place_of(area: &Vma, address: u64) -> FilePage {
    (area.mapping, area.file_offset.wrapping_add(address).wrapping_sub(area.start))
}

/// File pages in memory, by the names under which they own frames.
#[derive(Clone, Debug, Default)]
pub(super) struct Cache {
    names: FxHashMap<FilePage, u64>,
    /// By name: the file offset, and the pages that map it.
    pages: FxHashMap<u64, (FilePage, Vec<u64>)>,
    /// Names by the pages that map them.
    mapped: FxHashMap<u64, u64>,
    next: u64,
}

impl Cache {
    /// The page's name, if it is in memory.
    pub fn get(&self, place: FilePage) -> Option<u64> {
        self.names.get(&place).copied()
    }

    /// A new name, for a page to read.
    pub fn new_name(&mut self) -> u64 {
        self.next += 1;
        CACHED + self.next
    }

    /// Adds a page after its read.
    pub fn insert(&mut self, name: u64, place: FilePage) {
        self.names.insert(place, name);
        self.pages.insert(name, (place, Vec::new()));
    }

    /// Records that `page` maps it.
    pub fn map(&mut self, page: u64, name: u64) {
        self.mapped.insert(page, name);
        self.pages.get_mut(&name).expect("it is in memory").1.push(page);
    }

    /// The name that a page maps.
    pub fn mapped(&self, page: u64) -> Option<u64> {
        self.mapped.get(&page).copied()
    }

    /// The pages that map it.
    pub fn users(&self, name: u64) -> &[u64] {
        self.pages.get(&name).map_or(&[], |(_, users)| users)
    }

    /// Records that a page no longer maps it.
    pub fn unmap(&mut self, page: u64) {
        if let Some(name) = self.mapped.remove(&page) {
            self.pages.get_mut(&name).expect("it is in memory").1.retain(|&other| other != page);
        }
    }

    /// Drops it; returns the pages that mapped it.
    pub fn remove(&mut self, name: u64) -> Vec<u64> {
        let Some((place, users)) = self.pages.remove(&name) else { return Vec::new() };
        self.names.remove(&place);
        users.iter().for_each(|page| _ = self.mapped.remove(page));
        users
    }
}
