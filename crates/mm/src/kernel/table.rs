//! The page table: the mapping of each base page, and whether the program has touched it.

use crate::Superpage;
use rustc_hash::FxHashMap;
use std::ops::Range;

/// log2 of the base pages of a chunk of entries.
const REGION: u8 = 11;

const ORDER: u8 = 0x0f;
/// Its frames belong to the page cache or to the parent.
const FOREIGN: u8 = 0x10;
const BACKED: u8 = 0x20;
const TOUCHED: u8 = 0x40;
/// The next store to it faults.
const PROTECTED: u8 = 0x80;

/// The superpage or base page that maps each page.
#[derive(Clone, Debug, Default)]
pub struct PageTable {
    regions: FxHashMap<u64, u32>,
    entries: Vec<[u8; 1 << REGION]>,
    backed: u64,
    touched: u64,
    foreign: u64,
}

impl PageTable {
    fn entry(&self, page: u64) -> u8 {
        let region = self.regions.get(&(page >> REGION));
        region.map_or(0, |&region| self.entries[region as usize][page as usize % (1 << REGION)])
    }

    fn entry_mut(&mut self, page: u64) -> &mut u8 {
        let next = self.entries.len() as u32;
        let region = *self.regions.entry(page >> REGION).or_insert(next);
        if region == next {
            self.entries.push([0; 1 << REGION]);
        }
        &mut self.entries[region as usize][page as usize % (1 << REGION)]
    }

    /// The superpage or base page that maps a page, if it is backed.
    pub fn mapped(&self, page: u64) -> Option<Superpage> {
        let entry = self.entry(page);
        (entry & BACKED != 0).then(|| Superpage::around(page, entry & ORDER))
    }

    /// Whether the program has touched it.
    pub fn is_touched(&self, page: u64) -> bool {
        self.entry(page) & TOUCHED != 0
    }

    /// Whether the next store to it faults, because its frame may be shared.
    pub fn is_protected(&self, page: u64) -> bool {
        self.entry(page) & PROTECTED != 0
    }

    /// Whether its frame belongs to the page cache or to the parent.
    pub fn is_foreign(&self, page: u64) -> bool {
        self.entry(page) & FOREIGN != 0
    }

    /// Pages of a block in foreign frames.
    pub fn foreign_in(&self, block: Superpage) -> u64 {
        self.count(block, FOREIGN)
    }

    /// Pages of a block whose next store faults.
    pub fn protected_in(&self, block: Superpage) -> u64 {
        self.count(block, PROTECTED)
    }

    /// Backed pages of a block, in own or foreign frames.
    pub fn backed_in(&self, block: Superpage) -> u64 {
        self.count(block, BACKED)
    }

    /// Touched pages of a block.
    pub fn touched_in(&self, block: Superpage) -> u64 {
        self.count(block, TOUCHED)
    }

    fn count(&self, block: Superpage, flag: u8) -> u64 {
        let (mut at, mut count) = (block.first, 0);
        while at < block.pages().end {
            let end = block.pages().end.min(((at >> REGION) + 1) << REGION);
            if let Some(&region) = self.regions.get(&(at >> REGION)) {
                let from = at as usize % (1 << REGION);
                let entries = &self.entries[region as usize][from..from + (end - at) as usize];
                // Byte sums vectorize.
                let pieces = entries.chunks(128);
                let counts =
                    pieces.map(|piece| piece.iter().map(|entry| u8::from(entry & flag != 0)).sum::<u8>());
                count += counts.map(u64::from).sum::<u64>();
            }
            at = end;
        }
        count
    }

    /// Base pages in the process's own frames.
    pub fn backed(&self) -> u64 {
        self.backed
    }

    /// Touched base pages in the process's own frames.
    pub fn touched(&self) -> u64 {
        self.touched
    }

    /// Base pages in foreign frames.
    pub fn foreign(&self) -> u64 {
        self.foreign
    }

    /// All superpages and backed base pages, by ascending address.
    pub fn units(&self) -> Vec<Superpage> {
        let mut regions: Vec<u64> = self.regions.keys().copied().collect();
        regions.sort_unstable();
        let mut units = Vec::new();
        for region in regions {
            let pages = region << REGION..(region + 1) << REGION;
            // A unit that extends in from the previous chunk is listed already.
            let reached = units.last().map_or(0, |unit: &Superpage| unit.pages().end);
            units.extend(self.units_in(pages.start.max(reached)..pages.end));
        }
        units
    }

    /// The superpages and backed base pages that overlap a range, by ascending address.
    pub fn units_in(&self, pages: Range<u64>) -> Vec<Superpage> {
        let mut units = Vec::new();
        let mut page = pages.start;
        while page < pages.end {
            if !self.regions.contains_key(&(page >> REGION)) {
                page = ((page >> REGION) + 1) << REGION;
                continue;
            }
            match self.mapped(page) {
                Some(unit) => {
                    units.push(unit);
                    page = unit.pages().end;
                }
                None => page += 1,
            }
        }
        units
    }

    /// Maps a block as one page in the process's own frames. Returns the number of newly backed base pages.
    pub(crate) fn map(&mut self, block: Superpage) -> u64 {
        let (mut new, mut taken, mut touched) = (0, 0, 0);
        for page in block.pages() {
            let entry = self.entry_mut(page);
            new += u64::from(*entry & BACKED == 0);
            if *entry & FOREIGN != 0 {
                taken += 1;
                touched += u64::from(*entry & TOUCHED != 0);
            }
            *entry = *entry & TOUCHED | BACKED | block.order;
        }
        self.backed += new + taken;
        self.touched += touched;
        self.foreign -= taken;
        new
    }

    /// Maps an unmapped block as one page in foreign frames.
    pub(crate) fn map_foreign(&mut self, block: Superpage, protected: bool) {
        let protected = if protected { PROTECTED } else { 0 };
        block.pages().for_each(|page| *self.entry_mut(page) = BACKED | FOREIGN | protected | block.order);
        self.foreign += block.len();
    }

    /// Maps a part of a larger page as one page of its own; the frames stay.
    pub(crate) fn resize(&mut self, block: Superpage) {
        for page in block.pages() {
            let entry = self.entry_mut(page);
            *entry = *entry & !ORDER | block.order;
        }
    }

    /// Sets whether the next store to a block faults.
    pub(crate) fn protect(&mut self, block: Superpage, protected: bool) {
        for page in block.pages() {
            let entry = self.entry_mut(page);
            *entry = if protected { *entry | PROTECTED } else { *entry & !PROTECTED };
        }
    }

    /// Marks a backed page as touched.
    pub(crate) fn touch(&mut self, page: u64) {
        let entry = self.entry_mut(page);
        let new = *entry & (TOUCHED | FOREIGN) == 0;
        *entry |= TOUCHED;
        self.touched += u64::from(new);
    }

    /// Unmaps a page; true if it was touched.
    pub(crate) fn unmap(&mut self, page: u64) -> bool {
        let entry = std::mem::take(self.entry_mut(page));
        let is_own = entry & FOREIGN == 0;
        self.backed -= u64::from(is_own && entry & BACKED != 0);
        self.touched -= u64::from(is_own && entry & TOUCHED != 0);
        self.foreign -= u64::from(!is_own);
        entry & TOUCHED != 0
    }
}
