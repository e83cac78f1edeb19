//! The front: the pages that every design holds in its first level, found by one comparison.
//!
//! A direct-mapped table per class. An entry for a page means: every design's first-level array for the
//! class holds the page. So a reference that finds its page here is a hit everywhere, and all that is
//! left to do is to note the time and count. Entries leave when any design evicts the page.

use crate::fetch::FetchHead;
use crate::store::{CLASSES, FETCH, LOAD, PageStore, bits};
use pagewalk_trace::{Ref, Span};

/// Entries per class, a power of two. Larger than any first-level reach in use, so that conflicts are rare.
pub(crate) const SLOTS: usize = 512;
const MASK: u64 = SLOTS as u64 - 1;
/// The page number of an empty entry.
const EMPTY: u64 = u64::MAX;

/// 32 bytes, so that one shift finds it and one cache line holds it.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
struct Entry {
    vpn: u64,
    page: u32,
    /// References since the entry was made. Spread over lanes by turns: references come in runs to one
    /// page, and adding to one counter again and again would wait for itself.
    hits: [u32; LANES],
}

const LANES: usize = 4;
/// References of all entries together that no counter can run over by.
const ROOM: u64 = u32::MAX as u64;
const VACANT: Entry = Entry { vpn: EMPTY, page: 0, hits: [0; LANES] };

pub(crate) struct Front {
    /// Entries of class c begin at c times [`SLOTS`]. The fourth quarter is unused: it makes the length a
    /// power of two, so that a masked index needs no check.
    entries: Box<[Entry; 4 * SLOTS]>,
    /// References that `hits` may still take before they have to be counted.
    room: u64,
}

impl Front {
    pub fn new() -> Front {
        Front { entries: Box::new([VACANT; 4 * SLOTS]), room: ROOM }
    }

    fn entry(&mut self, class: usize, slot: usize) -> &mut Entry {
        &mut self.entries[class * SLOTS + slot]
    }
}

/// What [`PageStore::take_fetch_hits`] took.
pub(crate) struct FetchHits {
    /// Block executions.
    pub spans: usize,
    /// Their instructions.
    pub instructions: u64,
    /// Whether the next execution comes before `until` too, but needs more than a look at the front.
    pub more: bool,
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
        let entries = &mut *self.front.entries;
        let pages = self.pages.as_mut_slice();
        let mut now = self.now;
        let mut taken = refs.len();
        for (i, r) in refs.iter().enumerate() {
            if r.bits() & OFFSET_MASK >= may_cross && r.last_vpn() != r.vpn() {
                taken = i;
                break;
            }
            let vpn = r.vpn().0;
            // Stores and modifies have bit 1 of the kind set, loads have not: LOAD and STORE are neighbours.
            let class = if SPLIT { LOAD + (r.bits() >> 1 & 1) as usize } else { LOAD };
            let entry = &mut entries[((vpn & MASK) as usize + class * SLOTS) % (4 * SLOTS)];
            if entry.vpn != vpn {
                taken = i;
                break;
            }
            entry.hits[i % LANES] += 1;
            now += 1;
            pages[entry.page as usize].stamps[class] = now;
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
        self.front_make_room(taken as u64);
        taken
    }

    /// Takes block executions up to data reference `until` while each lies inside one page that the front
    /// holds: one hit for each instruction.
    pub fn take_fetch_hits(&mut self, spans: &[Span], heads: &[FetchHead], until: usize) -> FetchHits {
        let entries = &mut *self.front.entries;
        let pages = self.pages.as_mut_slice();
        let mut now = self.now;
        let mut taken = FetchHits { spans: spans.len(), instructions: 0, more: false };
        let mut translations = 0;
        for (i, span) in spans.iter().enumerate() {
            if span.first as usize > until {
                taken.spans = i;
                break;
            }
            let head = &heads[span.block.index()];
            let entry = &mut entries[((head.vpn & MASK) as usize + FETCH * SLOTS) % (4 * SLOTS)];
            if entry.vpn != head.vpn {
                (taken.spans, taken.more) = (i, true);
                break;
            }
            entry.hits[i % LANES] += head.translations;
            now += 1;
            pages[entry.page as usize].stamps[FETCH] = now;
            taken.instructions += u64::from(head.instructions);
            translations += u64::from(head.translations);
        }
        self.now = now;
        self.front_make_room(translations);
        taken
    }

    /// Counts what the entries hold before their counters could run over. A batch holds far fewer references
    /// than a 32-bit count does, so looking once a batch is enough.
    fn front_make_room(&mut self, references: u64) {
        self.front.room = self.front.room.saturating_sub(references);
        if self.front.room < 1 << 31 {
            self.front_clear();
        }
    }

    /// If the front holds the page for `class`: counts `n` references, notes the time and returns the page.
    #[inline]
    pub fn front_hit(&mut self, class: usize, vpn: u64, n: u32) -> Option<u32> {
        let entry = self.front.entry(class, (vpn & MASK) as usize);
        if entry.vpn != vpn {
            return None;
        }
        entry.hits[0] += n;
        let page = entry.page;
        self.now += 1;
        self.pages[page as usize].stamps[class] = self.now;
        self.front.room = self.front.room.saturating_sub(n.into());
        Some(page)
    }

    /// Counts `n` references of `class` to a page, in the front if that holds it.
    #[inline]
    pub fn count(&mut self, class: usize, page: u32, n: u32) {
        let vpn = self.pages[page as usize].vpn;
        let entry = self.front.entry(class, (vpn & MASK) as usize);
        if entry.vpn == vpn {
            entry.hits[0] += n;
            self.front.room = self.front.room.saturating_sub(n.into());
        } else {
            self.credit(page, class, n.into());
        }
    }

    /// The page's id, if the front holds it for `class`.
    #[inline]
    pub fn front_page(&self, class: usize, vpn: u64) -> Option<u32> {
        let entry = &self.front.entries[class * SLOTS + (vpn & MASK) as usize];
        (entry.vpn == vpn).then_some(entry.page)
    }

    /// Puts a page that all designs hold into the front.
    pub fn front_insert(&mut self, class: usize, page: u32) {
        let (vpn, unit) = (self.pages[page as usize].vpn, self.pages[page as usize].unit);
        let slot = (vpn & MASK) as usize;
        if self.front.entry(class, slot).vpn == vpn {
            return;
        }
        self.front_clear_slot(class, slot);
        *self.front.entry(class, slot) = Entry { vpn, page, hits: [0; LANES] };
        self.units[unit as usize].slots[class][slot / 64] |= 1 << (slot % 64);
    }

    /// Takes a page out of the front, if it is there.
    pub fn front_remove_page(&mut self, class: usize, page: u32) {
        let vpn = self.pages[page as usize].vpn;
        let slot = (vpn & MASK) as usize;
        if self.front.entry(class, slot).vpn == vpn {
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
        self.front.room = ROOM;
        for class in 0..CLASSES {
            for slot in 0..SLOTS {
                self.front_clear_slot(class, slot);
            }
        }
    }

    fn front_clear_slot(&mut self, class: usize, slot: usize) {
        let entry = std::mem::replace(self.front.entry(class, slot), VACANT);
        if entry.vpn == EMPTY {
            return;
        }
        let unit = self.pages[entry.page as usize].unit as usize;
        self.units[unit].slots[class][slot / 64] &= !(1 << (slot % 64));
        let last = self.pages[entry.page as usize].stamps[class];
        self.unit_stamps[class][unit] = self.unit_stamps[class][unit].max(last);
        self.credit(entry.page, class, entry.hits.into_iter().map(u64::from).sum());
    }

    /// Time of the last reference of `class` to a unit. Hits in the front note it for their page only, so
    /// pages that are in the front are asked.
    pub fn unit_stamp(&self, unit: u32, class: usize) -> u64 {
        let mut last = self.unit_stamps[class][unit as usize];
        for (word, &slots) in self.units[unit as usize].slots[class].iter().enumerate() {
            for bit in bits(slots) {
                let entry = &self.front.entries[class * SLOTS + word * 64 + bit];
                last = last.max(self.pages[entry.page as usize].stamps[class]);
            }
        }
        last
    }
}
