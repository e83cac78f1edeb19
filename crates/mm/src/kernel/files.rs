//! The page cache: which pages of files are in memory, and where this process maps them.
//!
//! Only what must be read first is kept track of: with a warm cache all pages of files are in memory, in frames that
//! are among those used at the start.

use super::memory::CACHED;
use crate::{MappingId, Vma};
use pagewalk_units::PageSize;
use rustc_hash::FxHashMap;

/// How files are mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileRules {
    /// Whether nothing is in memory at the start.
    pub cold: bool,
    /// Base pages around a load that faults which are mapped with it, where they are in memory: at least 1.
    pub around: u64,
    /// Base pages that are read together where one is not in memory: at least 1.
    pub read_ahead: u64,
    /// Cycles of a read.
    pub read_cycles: u64,
}

impl FileRules {
    /// Linux's with base pages of this size: `fault_around_bytes` 64 KiB, `read_ahead_kb` 128; a warm cache. A read
    /// takes 100 µs at 3 GHz, a solid-state disk of today, which is chosen.
    pub fn linux(base: PageSize) -> FileRules {
        let pages = |bytes: u64| (bytes / base.bytes()).max(1);
        FileRules { cold: false, around: pages(64 << 10), read_ahead: pages(128 << 10), read_cycles: 300_000 }
    }
}

/// A page of a file: the file, and where its first byte lies in it.
pub(super) type FileOffset = (MappingId, u64);

/// Where a page of an area lies in its file.
pub(super) fn place_of(area: &Vma, address: u64) -> FileOffset {
    (area.mapping, area.file_offset.wrapping_add(address).wrapping_sub(area.start))
}

/// Pages of files in memory, by the names under which they own frames.
#[derive(Clone, Debug, Default)]
pub(super) struct Cache {
    names: FxHashMap<FileOffset, u64>,
    /// By name: its place, and the pages that map it.
    pages: FxHashMap<u64, (FileOffset, Vec<u64>)>,
    /// Names by the pages that map them.
    mapped: FxHashMap<u64, u64>,
    next: u64,
}

impl Cache {
    /// The page's name, if it is in memory.
    pub fn get(&self, place: FileOffset) -> Option<u64> {
        self.names.get(&place).copied()
    }

    /// A name for a page that is read.
    pub fn new_name(&mut self) -> u64 {
        self.next += 1;
        CACHED + self.next
    }

    /// It has been read.
    pub fn insert(&mut self, name: u64, place: FileOffset) {
        self.names.insert(place, name);
        self.pages.insert(name, (place, Vec::new()));
    }

    /// A page maps it.
    pub fn map(&mut self, page: u64, name: u64) {
        self.mapped.insert(page, name);
        self.pages.get_mut(&name).expect("it is in memory").1.push(page);
    }

    /// What a page maps.
    pub fn mapped(&self, page: u64) -> Option<u64> {
        self.mapped.get(&page).copied()
    }

    /// The pages that map it.
    pub fn users(&self, name: u64) -> &[u64] {
        self.pages.get(&name).map_or(&[], |(_, users)| users)
    }

    /// A page maps nothing of it any more.
    pub fn unmap(&mut self, page: u64) {
        if let Some(name) = self.mapped.remove(&page) {
            self.pages.get_mut(&name).expect("it is in memory").1.retain(|&other| other != page);
        }
    }

    /// It is dropped. Returns the pages that mapped it.
    pub fn remove(&mut self, name: u64) -> Vec<u64> {
        let Some((place, users)) = self.pages.remove(&name) else { return Vec::new() };
        self.names.remove(&place);
        users.iter().for_each(|page| _ = self.mapped.remove(page));
        users
    }
}
