//! The front: pages that every design's first level holds, found by one comparison.
//!
//! It is a direct-mapped table per class. An entry means that every design's first-level array for the class holds the
//! page, so a reference to it hits everywhere and only needs its time and count recorded. The entry leaves when any
//! design evicts the page.

mod hits;

use crate::bits::bits;
use crate::classes::{CLASSES, FETCH, LOAD};
use crate::store::last_pages::LastPages;
use crate::store::{Page, PageStore};
use pagewalk_trace::Ref;
use pagewalk_units::PageSize;

/// Entries per class, a power of two. Larger than any first-level reach in use, so that conflicts are rare.
pub(crate) const SLOTS: usize = 512;
const MASK: u64 = SLOTS as u64 - 1;
/// No page number.
const NONE: u64 = u64::MAX;
/// No page.
const NOBODY: u32 = u32::MAX;

/// 32 bytes, so that one shift finds it and one cache line holds it.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
struct Entry {
    /// See [`Front::tag`].
    tag: u64,
    /// Time of the last reference; the page's own stamp is stale until the entry leaves.
    stamp: u64,
    /// References since the entry was made, spread over lanes in turn: runs of references to one page would otherwise
    /// wait on one counter.
    hits: [u32; LANES],
}

const LANES: usize = 4;
/// References in all entries together that cannot overflow a counter.
const ROOM: u64 = u32::MAX as u64;

/// A hit to report to designs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HitNotice {
    pub class: u32,
    pub page: u32,
}

pub(crate) struct Front {
    /// Bits of a record below the number of its page.
    shift: u32,
    /// Entries of class c begin at c times [`SLOTS`]. The fourth quarter is unused: it makes the length a
    /// power of two, so that a masked index needs no check.
    entries: Box<[Entry; 4 * SLOTS]>,
    /// The page of each entry, or [`NOBODY`].
    pages: Box<[u32; 4 * SLOTS]>,
    /// References that the counters can still take.
    room: u64,
    /// The last pages by set, if some design needs hits.
    latest: Option<LastPages>,
    /// Hits to report, in order.
    told: Vec<HitNotice>,
    /// The first few pages whose data entries have left since [`PageStore::forget_lost`], and the number of all.
    lost: [u64; LOST],
    lost_count: usize,
}

/// Most recorded lost pages.
const LOST: usize = 8;

impl Front {
    /// An empty one, for pages of this size.
    pub fn new(base: PageSize) -> Front {
        let shift = Ref::META_BITS + base.shift();
        Front {
            shift,
            entries: Box::new(std::array::from_fn(|at| vacant(at, shift))),
            pages: Box::new([NOBODY; 4 * SLOTS]),
            room: ROOM,
            latest: None,
            told: Vec::new(),
            lost: [NONE; LOST],
            lost_count: 0,
        }
    }

    /// The tag of an entry. For data: the page's first byte as records hold addresses, so that one subtraction gives a
    /// reference's offset. For fetches: the page's number.
    #[inline(always)]
    fn tag(&self, class: usize, vpn: u64) -> u64 {
        tag(class, vpn, self.shift)
    }

    /// The index of this page's entry; another address space may have a page of the same number.
    fn entry_of(&self, class: usize, vpn: u64, page: u32) -> Option<usize> {
        let at = place(class, vpn);
        (self.pages[at] == page).then_some(at)
    }

    /// Records that this page's data entries leave; those for loads and for stores leave together.
    #[inline]
    fn lose(&mut self, vpn: u64) {
        let before = self.lost_count.checked_sub(1).and_then(|last| self.lost.get(last));
        if before != Some(&vpn) {
            if let Some(lost) = self.lost.get_mut(self.lost_count) {
                *lost = vpn;
            }
            self.lost_count += 1;
        }
    }

    /// The index of the page's entry for `class`, if it has one.
    #[inline]
    fn find(&self, class: usize, vpn: u64) -> Option<usize> {
        let at = place(class, vpn);
        (self.entries[at].tag == self.tag(class, vpn)).then_some(at)
    }
}

/// See [`Front::tag`].
#[inline(always)]
fn tag(class: usize, vpn: u64, shift: u32) -> u64 {
    if class == FETCH { vpn } else { vpn << shift }
}

/// An empty entry: it is tagged with a page of another slot, too far away for any reference to this slot's pages to
/// reach.
fn vacant(at: usize, shift: u32) -> Entry {
    let vpn = at as u64 & MASK ^ (SLOTS as u64 / 2);
    Entry { tag: tag(at / SLOTS, vpn, shift), stamp: 0, hits: [0; LANES] }
}

/// The slot of a page for `class`.
#[inline(always)]
fn place(class: usize, vpn: u64) -> usize {
    ((vpn & MASK) as usize + class * SLOTS) % (4 * SLOTS)
}

impl PageStore {
    /// Makes the front record hits, for replacement that needs them by `sets` sets of small pages.
    pub fn mind_hits(&mut self, sets: usize) {
        let sets = self.front.latest.as_ref().map_or(sets, |latest| sets.min(latest.sets()));
        self.front.latest = Some(LastPages::new(sets));
    }

    /// Forgets the last pages: another address space runs.
    pub fn forget_latest(&mut self) {
        if let Some(latest) = &mut self.front.latest {
            *latest = LastPages::new(latest.sets());
        }
    }

    /// Whether the front holds the page for loads.
    #[inline(always)]
    pub fn front_holds_for_loads(&self, vpn: u64) -> bool {
        self.front.find(LOAD, vpn).is_some()
    }

    /// [`LastPages::note`]; true if no design needs hits.
    #[inline]
    pub fn is_latest(&mut self, class: usize, vpn: u64, fetches_too: bool) -> bool {
        self.front.latest.as_mut().is_none_or(|latest| latest.note(class, vpn, fetches_too))
    }

    /// Takes the hits to report, in order.
    pub fn take_told(&mut self) -> Vec<HitNotice> {
        std::mem::take(&mut self.front.told)
    }

    /// Returns the list for reuse.
    pub fn give_back_told(&mut self, mut told: Vec<HitNotice>) {
        told.clear();
        self.front.told = told;
    }

    /// Empties the counters before they could overflow; `references`: those taken since the last call. A batch has far
    /// fewer than 2^32 references, so one call per batch is enough.
    pub fn front_make_room(&mut self, references: u64) {
        self.front.room = self.front.room.saturating_sub(references);
        if self.front.room < 1 << 31 {
            self.front_clear();
        }
    }

    /// If the front holds the page for `class`: counts `n` references, sets the time and returns the page.
    #[inline]
    pub fn front_hit(&mut self, class: usize, vpn: u64, n: u32) -> Option<u32> {
        let at = self.front.find(class, vpn)?;
        self.now += 1;
        let entry = &mut self.front.entries[at];
        entry.hits[0] += n;
        entry.stamp = self.now;
        self.front.room = self.front.room.saturating_sub(n.into());
        Some(self.front.pages[at])
    }

    /// Counts `n` references of `class` to a page, in the front if that holds it.
    #[inline]
    pub fn count(&mut self, class: usize, page: u32, n: u32) {
        if let Some(at) = self.front.find(class, self.pages[page as usize].vpn) {
            self.front.entries[at].hits[0] += n;
            self.front.room = self.front.room.saturating_sub(n.into());
        } else {
            self.credit(page, class, n.into());
        }
    }

    /// The page's id, if the front holds it for `class`.
    #[inline]
    pub fn front_page(&self, class: usize, vpn: u64) -> Option<u32> {
        self.front.find(class, vpn).map(|at| self.front.pages[at])
    }

    /// Puts a page that all designs hold into the front.
    pub fn front_insert(&mut self, class: usize, page: u32) {
        // Borrow the stamps: copying them right after a write to one would stall.
        let &Page { vpn, unit, stamps: ref all, .. } = &self.pages[page as usize];
        let stamp = all[class];
        let (at, tag) = (place(class, vpn), self.front.tag(class, vpn));
        if self.front.entries[at].tag == tag {
            return;
        }
        self.front_clear_at(class, at);
        self.front.entries[at] = Entry { tag, stamp, hits: [0; LANES] };
        self.front.pages[at] = page;
        let slot = at % SLOTS;
        if self.minds_units {
            self.units[unit as usize].slots[class][slot / 64] |= 1 << (slot % 64);
        }
        if !self.supers.is_empty() {
            self.supers.note_slot(page, class, slot, true);
        }
    }

    /// Takes a page out of the front, if it is there.
    #[inline]
    pub fn front_remove_page(&mut self, class: usize, page: u32) {
        if let Some(at) = self.front.entry_of(class, self.pages[page as usize].vpn, page) {
            self.front_clear_at(class, at);
        }
    }

    /// Takes all pages of a unit out of the front.
    pub fn front_remove_unit(&mut self, class: usize, unit: u32) {
        for word in 0..SLOTS / 64 {
            for bit in bits(self.units[unit as usize].slots[class][word]) {
                self.front_clear_at(class, class * SLOTS + word * 64 + bit);
            }
        }
    }

    /// Restarts the record of data entries that leave.
    pub fn forget_lost(&mut self) {
        self.front.lost_count = 0;
    }

    /// The pages whose data entries have left since then, if few.
    #[inline]
    pub fn lost(&self) -> Option<&[u64]> {
        self.front.lost.get(..self.front.lost_count)
    }

    /// Empties the front and counts what it still held.
    pub fn front_clear(&mut self) {
        self.front.room = ROOM;
        for class in 0..CLASSES {
            for slot in 0..SLOTS {
                self.front_clear_at(class, class * SLOTS + slot);
            }
        }
    }

    fn front_clear_at(&mut self, class: usize, at: usize) {
        let id = std::mem::replace(&mut self.front.pages[at], NOBODY);
        if id == NOBODY {
            return;
        }
        let vacant = vacant(at, self.front.shift);
        let Entry { stamp, hits, .. } = std::mem::replace(&mut self.front.entries[at], vacant);
        let page = &mut self.pages[id as usize];
        if class != FETCH {
            self.front.lose(page.vpn);
        }
        page.stamps[class] = stamp;
        let (unit, slot) = (page.unit as usize, at % SLOTS);
        if self.minds_units {
            self.units[unit].slots[class][slot / 64] &= !(1 << (slot % 64));
            self.unit_stamps[class][unit] = self.unit_stamps[class][unit].max(stamp);
        }
        if !self.supers.is_empty() {
            self.supers.note_slot(id, class, slot, false);
            self.supers.stamp(id, class, stamp);
        }
        self.credit(id, class, hits.into_iter().map(u64::from).sum());
    }

    /// Removes a slot's entry for `class`.
    pub fn front_clear_slot(&mut self, class: usize, slot: usize) {
        self.front_clear_at(class, class * SLOTS + slot);
    }

    /// Time of the last reference to a slot's entry for `class`.
    pub fn front_stamp(&self, class: usize, slot: usize) -> u64 {
        self.front.entries[class * SLOTS + slot].stamp
    }

    /// Time of the last reference of `class` to a page with these low bits of its number.
    #[inline]
    pub fn page_stamp(&self, page: u32, low: u32, class: usize) -> u64 {
        let at = place(class, low.into());
        if self.front.pages[at] == page {
            self.front.entries[at].stamp
        } else {
            self.pages[page as usize].stamps[class]
        }
    }

    /// Time of the last reference of `class` to a unit, including its pages in the front.
    pub fn unit_stamp(&self, unit: u32, class: usize) -> u64 {
        let mut last = self.unit_stamps[class][unit as usize];
        for (word, &slots) in self.units[unit as usize].slots[class].iter().enumerate() {
            for bit in bits(slots) {
                last = last.max(self.front.entries[class * SLOTS + word * 64 + bit].stamp);
            }
        }
        last
    }
}
