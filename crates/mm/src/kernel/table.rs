//! The page table: what backs each base page, and whether the program has touched it.

use crate::Superpage;
use rustc_hash::FxHashMap;
use std::ops::Range;

/// log2 of the base pages of a region: pages whose entries lie together.
const REGION: u8 = 11;

const ORDER: u8 = 0x1f;
const BACKED: u8 = 0x20;
const TOUCHED: u8 = 0x40;

/// Which superpage, or base page, maps each page.
#[derive(Clone, Debug, Default)]
pub struct PageTable {
    regions: FxHashMap<u64, u32>,
    entries: Vec<[u8; 1 << REGION]>,
    backed: u64,
    touched: u64,
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

    /// What maps a page, if it is backed: a superpage, or the page itself.
    pub fn mapped(&self, page: u64) -> Option<Superpage> {
        let entry = self.entry(page);
        (entry & BACKED != 0).then(|| Superpage::around(page, entry & ORDER))
    }

    /// Whether the program has touched it.
    pub fn is_touched(&self, page: u64) -> bool {
        self.entry(page) & TOUCHED != 0
    }

    /// Pages of a block that are backed.
    pub fn backed_in(&self, block: Superpage) -> u64 {
        self.count(block, BACKED)
    }

    /// Pages of a block that the program has touched.
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
                // Bytes are summed as bytes, many at a time.
                let pieces = entries.chunks(128);
                let counts =
                    pieces.map(|piece| piece.iter().map(|entry| u8::from(entry & flag != 0)).sum::<u8>());
                count += counts.map(u64::from).sum::<u64>();
            }
            at = end;
        }
        count
    }

    /// Base pages backed.
    pub fn backed(&self) -> u64 {
        self.backed
    }

    /// Base pages touched, of those.
    pub fn touched(&self) -> u64 {
        self.touched
    }

    /// The distinct superpages and backed base pages of a range, by ascending address. Those that reach out of the
    /// range too.
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

    /// Backs all of a block by one page of its size. Returns the base pages that nothing backed before.
    pub(crate) fn map(&mut self, block: Superpage) -> u64 {
        let mut new = 0;
        for page in block.pages() {
            let entry = self.entry_mut(page);
            new += u64::from(*entry & BACKED == 0);
            *entry = *entry & TOUCHED | BACKED | block.order;
        }
        self.backed += new;
        new
    }

    /// Notes that the program has touched a backed page.
    pub(crate) fn touch(&mut self, page: u64) {
        let entry = self.entry_mut(page);
        let new = *entry & TOUCHED == 0;
        *entry |= TOUCHED;
        self.touched += u64::from(new);
    }

    /// Takes a page's backing away; says whether it had been touched.
    pub(crate) fn unmap(&mut self, page: u64) -> bool {
        let entry = std::mem::take(self.entry_mut(page));
        self.backed -= u64::from(entry & BACKED != 0);
        self.touched -= u64::from(entry & TOUCHED != 0);
        entry & TOUCHED != 0
    }
}
