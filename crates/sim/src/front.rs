//! The front: the pages that every design holds in its first level, found by one comparison.
//!
//! A direct-mapped table per class. An entry for a page means: every design's first-level array for the
//! class holds the page. So a reference that finds its page here is a hit everywhere, and all that is
//! left to do is to note the time and count. Entries leave when any design evicts the page.

use crate::store::{CLASSES, PageStore, bits};
use pagewalk_trace::Ref;

/// Entries per class, a power of two. Larger than any first-level reach in use, so that conflicts are rare.
pub(crate) const SLOTS: usize = 512;
const MASK: u64 = SLOTS as u64 - 1;
/// The page number of an empty entry.
const EMPTY: u64 = u64::MAX;

#[derive(Clone, Copy, Debug)]
struct Entry {
    vpn: u64,
    page: u32,
}

const _: () = assert!(size_of::<Entry>() == 16);

/// References to each entry since it was made or last counted. Spread over lanes by turns: references come
/// in runs to one page, and adding to one counter again and again would wait for itself.
type Hits = [[u32; LANES]; SLOTS];
const LANES: usize = 4;

pub(crate) struct Front {
    entries: [Box<[Entry; SLOTS]>; CLASSES],
    hits: [Box<Hits>; CLASSES],
    /// References that `hits` may still take before they have to be counted.
    room: u32,
}

impl Front {
    pub fn new() -> Front {
        let empty = Entry { vpn: EMPTY, page: 0 };
        Front {
            entries: std::array::from_fn(|_| Box::new([empty; SLOTS])),
            hits: std::array::from_fn(|_| Box::new([[0; LANES]; SLOTS])),
            room: u32::MAX,
        }
    }
}

/// A reference whose offset in its page is above this may cross into the next, unless the batch is wide.
const MAY_CROSS: u64 = (4096 - 63) << Ref::META_BITS;
const OFFSET_MASK: u64 = (1 << (Ref::META_BITS + pagewalk_units::PAGE_SHIFT)) - 1;

impl PageStore {
    /// Takes references while they hit the front; returns how many. The next one, if any, missed it or
    /// crosses a page boundary.
    ///
    /// `SPLIT`: loads and stores are classes of their own.
    #[inline(always)]
    fn run_data<const SPLIT: bool>(&mut self, refs: &[Ref], may_cross: u64) -> usize {
        let [_, loads, stores] = &self.front.entries;
        let [_, load_hits, store_hits] = &mut self.front.hits;
        let [_, load_stamps, store_stamps] = &mut self.page_stamps;
        // All pages have stamps of every class, so one length serves both.
        let pages = load_stamps.len().min(store_stamps.len());
        let (load_stamps, store_stamps) = (&mut load_stamps[..pages], &mut store_stamps[..pages]);
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
            let entry = if store { &stores[slot] } else { &loads[slot] };
            if entry.vpn != vpn {
                taken = i;
                break;
            }
            let hits = if store { &mut *store_hits } else { &mut *load_hits };
            hits[slot][i % LANES] += 1;
            now += 1;
            let stamps = if store { &mut *store_stamps } else { &mut *load_stamps };
            stamps[entry.page as usize] = now;
        }
        self.now = now;
        taken
    }

    /// [`PageStore::run_data`] for the classes of this run.
    pub fn take_data_hits(&mut self, refs: &[Ref], wide: bool, split: bool) -> usize {
        let may_cross = if wide { 0 } else { MAY_CROSS };
        let taken = match split {
            false => self.run_data::<false>(refs, may_cross),
            true => self.run_data::<true>(refs, may_cross),
        };
        // A batch holds far fewer references than a 32-bit count does, so counting in time is enough.
        self.front.room = self.front.room.saturating_sub(taken as u32);
        if self.front.room < 1 << 31 {
            self.front_clear();
        }
        taken
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
        self.front.entries[class][slot] = Entry { vpn, page };
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
        self.front.room = u32::MAX;
        for class in 0..CLASSES {
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
        let page = entry.page;
        entry.vpn = EMPTY;
        let hits: u64 = std::mem::take(&mut self.front.hits[class][slot]).into_iter().map(u64::from).sum();
        let unit = self.pages[page as usize].unit as usize;
        self.units[unit].slots[class][slot / 64] &= !(1 << (slot % 64));
        let last = &mut self.unit_stamps[class][unit];
        *last = (*last).max(self.page_stamps[class][page as usize]);
        self.credit(page, class, hits);
    }

    /// Time of the last reference of `class` to a unit. Hits in the front note it for their page only, so
    /// pages that are in the front are asked.
    pub fn unit_stamp(&self, unit: u32, class: usize) -> u64 {
        let mut last = self.unit_stamps[class][unit as usize];
        for (word, &slots) in self.units[unit as usize].slots[class].iter().enumerate() {
            for bit in bits(slots) {
                let page = self.front.entries[class][word * 64 + bit].page;
                last = last.max(self.page_stamps[class][page as usize]);
            }
        }
        last
    }
}
