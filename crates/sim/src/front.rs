//! The front: the pages that every design holds in its first level, found by one comparison.
//!
//! A direct-mapped table per class. An entry for a page means: every design's first-level array for the
//! class holds the page. So a reference that finds its page here is a hit everywhere, and all that is
//! left to do is to note the time and count. Entries leave when any design evicts the page.

use crate::store::{CLASSES, LOAD, PageStore, STORE};
use pagewalk_trace::Ref;

/// Entries per class, a power of two. Larger than any first-level reach in use, so that conflicts are rare.
pub(crate) const SLOTS: usize = 512;
const MASK: u64 = SLOTS as u64 - 1;
/// The page number of an empty entry.
const EMPTY: u64 = u64::MAX;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub vpn: u64,
    pub page: u32,
    pub unit: u32,
    /// References since the entry was made.
    pub hits: u64,
}

pub(crate) struct Front {
    entries: [Box<[Entry]>; CLASSES],
}

impl Front {
    pub fn new() -> Front {
        let empty = Entry { vpn: EMPTY, page: 0, unit: 0, hits: 0 };
        Front { entries: std::array::from_fn(|_| vec![empty; SLOTS].into_boxed_slice()) }
    }
}

/// A reference whose offset in its page is above this may cross into the next, unless the batch is wide.
const MAY_CROSS: u64 = (4096 - 63) << Ref::META_BITS;
const OFFSET_MASK: u64 = (1 << (Ref::META_BITS + pagewalk_units::PAGE_SHIFT)) - 1;

impl PageStore {
    /// Takes references while they hit the front; returns how many. The next one, if any, missed it or
    /// crosses a page boundary.
    ///
    /// `SPLIT`: loads and stores are classes of their own. `UNITS`: some design has huge pages.
    #[inline(always)]
    fn run_data<const SPLIT: bool, const UNITS: bool>(&mut self, refs: &[Ref], may_cross: u64) -> usize {
        let [_, loads, stores] = &mut self.front.entries;
        let (loads, stores) = (&mut loads[..SLOTS], &mut stores[..SLOTS]);
        let [_, load_pages, store_pages] = &mut self.page_stamps;
        let [_, load_units, store_units] = &mut self.unit_stamps;
        let mut now = self.now;
        let mut taken = refs.len();
        for (i, r) in refs.iter().enumerate() {
            if r.bits() & OFFSET_MASK >= may_cross && r.last_vpn() != r.vpn() {
                taken = i;
                break;
            }
            let vpn = r.vpn().0;
            let slot = (vpn & MASK) as usize;
            // Stores and modifies have bit 1 of the kind set.
            let store = SPLIT && r.bits() & 2 != 0;
            let entry = if store { &mut stores[slot] } else { &mut loads[slot] };
            if entry.vpn != vpn {
                taken = i;
                break;
            }
            entry.hits += 1;
            now += 1;
            let pages = if store { &mut *store_pages } else { &mut *load_pages };
            pages[entry.page as usize] = now;
            if UNITS {
                let units = if store { &mut *store_units } else { &mut *load_units };
                units[entry.unit as usize] = now;
            }
        }
        self.now = now;
        taken
    }

    /// [`PageStore::run_data`] for the classes and page sizes of this run.
    pub fn take_data_hits(&mut self, refs: &[Ref], wide: bool, split: bool, units: bool) -> usize {
        let may_cross = if wide { 0 } else { MAY_CROSS };
        match (split, units) {
            (false, false) => self.run_data::<false, false>(refs, may_cross),
            (false, true) => self.run_data::<false, true>(refs, may_cross),
            (true, false) => self.run_data::<true, false>(refs, may_cross),
            (true, true) => self.run_data::<true, true>(refs, may_cross),
        }
    }

    /// If the front holds the page for `class`: notes the time and returns the page. Does not count.
    #[inline]
    pub fn front_hit(&mut self, class: usize, vpn: u64) -> Option<u32> {
        let entry = self.front.entries[class][(vpn & MASK) as usize];
        if entry.vpn != vpn {
            return None;
        }
        self.now += 1;
        self.page_stamps[class][entry.page as usize] = self.now;
        self.unit_stamps[class][entry.unit as usize] = self.now;
        Some(entry.page)
    }

    /// Puts a page that all designs hold into the front.
    pub fn front_insert(&mut self, class: usize, page: u32) {
        let (vpn, unit) = (self.pages[page as usize].vpn, self.pages[page as usize].unit);
        let slot = (vpn & MASK) as usize;
        if self.front.entries[class][slot].vpn == vpn {
            return;
        }
        self.front_clear_slot(class, slot);
        self.front.entries[class][slot] = Entry { vpn, page, unit, hits: 0 };
        self.units[unit as usize].slots[class][slot / 64] |= 1 << (slot % 64);
    }

    /// Takes a page out of the front, if it is there.
    pub fn front_remove_page(&mut self, class: usize, page: u32) {
        let vpn = self.pages[page as usize].vpn;
        let slot = (vpn & MASK) as usize;
        if self.front.entries[class][slot].vpn == vpn {
            self.front_clear_slot(class, slot);
        }
    }

    /// Takes all pages of a unit out of the front.
    pub fn front_remove_unit(&mut self, class: usize, unit: u32) {
        for word in 0..SLOTS / 64 {
            while self.units[unit as usize].slots[class][word] != 0 {
                let bit = self.units[unit as usize].slots[class][word].trailing_zeros() as usize;
                self.front_clear_slot(class, word * 64 + bit);
            }
        }
    }

    /// Empties the front and counts what it still held.
    pub fn front_clear(&mut self) {
        for class in [crate::store::FETCH, LOAD, STORE] {
            for slot in 0..SLOTS {
                self.front_clear_slot(class, slot);
            }
        }
    }

    fn front_clear_slot(&mut self, class: usize, slot: usize) {
        let entry = &mut self.front.entries[class][slot];
        if entry.vpn == EMPTY {
            return;
        }
        let Entry { page, unit, hits, .. } = *entry;
        entry.vpn = EMPTY;
        self.units[unit as usize].slots[class][slot / 64] &= !(1 << (slot % 64));
        self.credit(page, class, hits);
    }
}
