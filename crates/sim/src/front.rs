//! The front: the pages that every design holds in its first level, found by one comparison.
//!
//! A direct-mapped table per class. An entry for a page means: every design's first-level array for the
//! class holds the page. So a reference that finds its page here is a hit everywhere, and all that is
//! left to do is to note the time and count. Entries leave when any design evicts the page.

use crate::fetch::FetchTable;
use crate::latest::Latest;
use crate::lookahead::look_ahead;
use crate::store::{CLASSES, FETCH, LOAD, Page, PageStore, bits};
use pagewalk_trace::{Ref, Span};
use pagewalk_units::Size;

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
    /// Time of the last reference; the page's own stamp is behind until the entry leaves.
    stamp: u64,
    /// References since the entry was made. Spread over lanes by turns: references come in runs to one
    /// page, and adding to one counter again and again would wait for itself.
    hits: [u32; LANES],
}

const LANES: usize = 4;
/// References of all entries together that no counter can run over by.
const ROOM: u64 = u32::MAX as u64;
const VACANT: Entry = Entry { vpn: EMPTY, stamp: 0, hits: [0; LANES] };

/// A hit to be told of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    pub class: u32,
    pub page: u32,
}

pub(crate) struct Front {
    /// Entries of class c begin at c times [`SLOTS`]. The fourth quarter is unused: it makes the length a
    /// power of two, so that a masked index needs no check.
    entries: Box<[Entry; 4 * SLOTS]>,
    /// The page of each entry that is not empty.
    pages: Box<[u32; 4 * SLOTS]>,
    /// References that `hits` may still take before they have to be counted.
    room: u64,
    /// Where some design is told of hits.
    latest: Option<Latest>,
    /// Entries that were hit and are to be told of, in order.
    told: Vec<Told>,
    /// Pages whose entries for data have left since [`PageStore::forget_lost`], the first few, and how many they are.
    lost: [u64; LOST],
    lost_count: usize,
}

/// So many are known by number.
const LOST: usize = 8;

impl Front {
    pub fn new() -> Front {
        Front {
            entries: Box::new([VACANT; 4 * SLOTS]),
            pages: Box::new([0; 4 * SLOTS]),
            room: ROOM,
            latest: None,
            told: Vec::new(),
            lost: [EMPTY; LOST],
            lost_count: 0,
        }
    }

    /// The index of the entry that is this page's, which may have a namesake in another address space.
    fn entry_of(&self, class: usize, vpn: u64, page: u32) -> Option<usize> {
        self.find(class, vpn).filter(|&at| self.pages[at] == page)
    }

    /// Notes that an entry for data of this page leaves. Those for loads and for stores leave together.
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

    /// The page's place for `class`: the index of its entry, if it has one.
    #[inline]
    fn find(&self, class: usize, vpn: u64) -> Option<usize> {
        let at = place(class, vpn);
        (self.entries[at].vpn == vpn).then_some(at)
    }
}

/// The index of the entry that a page has for `class`, if it has one.
#[inline(always)]
fn place(class: usize, vpn: u64) -> usize {
    ((vpn & MASK) as usize + class * SLOTS) % (4 * SLOTS)
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

/// By size code: how far a reference's last byte lies above its first, as records hold addresses.
const TO_LAST_BYTE: [u64; Size::BYTES.len()] = {
    let mut distances = [0; Size::BYTES.len()];
    let mut code = 0;
    while code < distances.len() {
        distances[code] = (Size::BYTES[code] as u64 - 1) << Ref::META_BITS;
        code += 1;
    }
    distances
};

/// The record with the address of the last byte. After the end of all addresses comes 0: another page.
#[inline(always)]
fn last_byte(r: Ref) -> u64 {
    r.bits().wrapping_add(TO_LAST_BYTE[usize::from(r.size().code())])
}

/// The class of a data reference. `SPLIT`: loads and stores are classes of their own. Stores and modifies have bit 1 of
/// the kind set, loads have not, and LOAD and STORE are neighbours.
#[inline(always)]
fn class_of_data<const SPLIT: bool>(r: Ref) -> usize {
    if SPLIT { LOAD + (r.bits() >> 1 & 1) as usize } else { LOAD }
}

impl PageStore {
    /// Has the front keep the hits that some replacement minds, where sets of so many small pages do.
    pub fn mind_hits(&mut self, sets: usize) {
        let sets = self.front.latest.as_ref().map_or(sets, |latest| sets.min(latest.sets()));
        self.front.latest = Some(Latest::new(sets));
    }

    /// Another address space runs: its pages have other sets' numbers.
    pub fn forget_latest(&mut self) {
        if let Some(latest) = &mut self.front.latest {
            *latest = Latest::new(latest.sets());
        }
    }

    /// What [`Latest::note`] says of a reference to a page; true where nobody minds hits.
    #[inline]
    pub fn is_latest(&mut self, class: usize, vpn: u64, fetches_too: bool) -> bool {
        self.front.latest.as_mut().is_none_or(|latest| latest.note(class, vpn, fetches_too))
    }

    /// Takes the hits to be told of, in order.
    pub fn take_told(&mut self) -> Vec<Told> {
        std::mem::take(&mut self.front.told)
    }

    /// Gives their room back.
    pub fn give_back_told(&mut self, mut told: Vec<Told>) {
        told.clear();
        self.front.told = told;
    }

    /// Takes references while they hit the front; returns how many. The next one, if any, missed it or
    /// crosses a page boundary. Looks at four at a time: one branch then serves them all. `MINDFUL`: some design is
    /// told of hits. They are kept until the run ends: until then none of its arrays changes otherwise.
    #[inline(always)]
    fn run_data<const SPLIT: bool, const MINDFUL: bool>(&mut self, refs: &[Ref]) -> usize {
        // How far the page number lies above a record's lowest bit. That the compiler does not know it costs nothing
        // that could be measured.
        let base = self.paging.base().shift();
        let shift = Ref::META_BITS + base;
        let page_of = |r: Ref| r.bits() >> shift;
        let place_of_data = |r: Ref| place(class_of_data::<SPLIT>(r), page_of(r));
        let differs = |entry: &Entry, r: Ref| (entry.vpn ^ page_of(r)) | (entry.vpn ^ last_byte(r) >> shift);
        let Front { entries, latest, told, pages, .. } = &mut self.front;
        let (entries, pages) = (&mut **entries, &**pages);
        let mut mind = |at: usize, r: Ref| {
            if let (true, Some(latest)) = (MINDFUL, &mut *latest) {
                // Most hits change nothing; which ones do is hard to predict.
                let class = class_of_data::<SPLIT>(r);
                let minded = if SPLIT {
                    !latest.note(class, page_of(r), false)
                } else {
                    !latest.note_alone(class, page_of(r))
                };
                told.push(Told { class: class as u32, page: pages[at] });
                told.truncate(told.len() - usize::from(!minded));
            }
        };
        let mut now = self.now;
        let mut taken = 0;
        'all: loop {
            while let Some(four) = refs[taken..].first_chunk::<LANES>() {
                look_ahead(refs, taken);
                let places = four.map(place_of_data);
                let unlike =
                    four.iter().zip(&places).fold(0, |all, (r, &at)| all | differs(&entries[at], *r));
                if unlike != 0 {
                    break;
                }
                for (lane, &at) in places.iter().enumerate() {
                    entries[at].hits[lane] += 1;
                    entries[at].stamp = now + 1 + lane as u64;
                    mind(at, four[lane]);
                }
                now += LANES as u64;
                taken += LANES;
            }
            // One at a time: up to the one that stopped the four.
            let rest = &refs[taken..];
            for (i, r) in rest.iter().take(LANES).enumerate() {
                let at = place_of_data(*r);
                if differs(&entries[at], *r) != 0 {
                    break 'all;
                }
                now += 1;
                entries[at].hits[i] += 1;
                entries[at].stamp = now;
                mind(at, *r);
                taken += 1;
            }
            if taken == refs.len() {
                break;
            }
        }
        self.now = now;
        taken
    }

    /// [`PageStore::run_data`] for the classes of this run.
    pub fn take_data_hits(&mut self, refs: &[Ref], split: bool) -> usize {
        let taken = match (split, self.front.latest.is_some()) {
            (false, false) => self.run_data::<false, false>(refs),
            (true, false) => self.run_data::<true, false>(refs),
            (_, true) => self.take_minded_data_hits(refs, split),
        };
        self.front_make_room(taken as u64);
        taken
    }

    /// Takes block executions up to data reference `until` while the front holds every page that they lie in: one
    /// hit for each translation.
    pub fn take_fetch_hits(&mut self, spans: &[Span], fetches: &FetchTable, until: usize) -> FetchHits {
        match self.front.latest.is_some() {
            false => self.run_fetches::<false>(spans, fetches, until),
            true => self.take_minded_fetch_hits(spans, fetches, until),
        }
    }

    // On their own, so that they take no registers from the loops above.
    #[inline(never)]
    fn take_minded_data_hits(&mut self, refs: &[Ref], split: bool) -> usize {
        match split {
            false => self.run_data::<false, true>(refs),
            true => self.run_data::<true, true>(refs),
        }
    }

    #[inline(never)]
    fn take_minded_fetch_hits(&mut self, spans: &[Span], fetches: &FetchTable, until: usize) -> FetchHits {
        self.run_fetches::<true>(spans, fetches, until)
    }

    #[inline(always)]
    fn run_fetches<const MINDFUL: bool>(
        &mut self,
        spans: &[Span],
        fetches: &FetchTable,
        until: usize,
    ) -> FetchHits {
        let Front { entries, latest, told, pages, .. } = &mut self.front;
        let (entries, pages) = (&mut **entries, &**pages);
        let mut mind = |vpn: u64| {
            if let (true, Some(latest)) = (MINDFUL, &mut *latest)
                && !latest.note_alone(FETCH, vpn)
            {
                told.push(Told { class: FETCH as u32, page: pages[place(FETCH, vpn)] });
            }
        };
        let heads = fetches.heads.as_slice();
        let merges = self.may_merge;
        let mut now = self.now;
        let mut taken = FetchHits { spans: spans.len(), instructions: 0, more: false };
        let mut translations = 0;
        for (i, span) in spans.iter().enumerate() {
            if span.first as usize > until {
                taken.spans = i;
                break;
            }
            let head = heads[span.block.index()];
            let entry = &mut entries[place(FETCH, head.vpn)];
            if entry.vpn == head.vpn {
                mind(head.vpn);
                now += 1;
                entry.hits[i % LANES] += head.translations;
                entry.stamp = now;
                translations += u64::from(head.translations);
            } else {
                // Hits of several pages move nothing but stamps, whatever data references lie between them.
                let runs = if head.is_several() { fetches.runs(head) } else { &[] };
                let apart = runs.is_empty() || merges && head.crosses();
                let together = !apart && fetches.may_take(runs, span.first, until);
                if !together || runs.iter().any(|run| entries[place(FETCH, run.vpn)].vpn != run.vpn) {
                    (taken.spans, taken.more) = (i, true);
                    break;
                }
                for run in runs {
                    mind(run.vpn);
                    now += 1;
                    let entry = &mut entries[place(FETCH, run.vpn)];
                    entry.hits[i % LANES] += run.translations;
                    entry.stamp = now;
                    translations += u64::from(run.translations);
                }
            }
            taken.instructions += u64::from(head.instructions);
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
        let Page { vpn, unit, stamps, .. } = self.pages[page as usize];
        let at = place(class, vpn);
        if self.front.entries[at].vpn == vpn {
            return;
        }
        self.front_clear_at(class, at);
        self.front.entries[at] = Entry { vpn, stamp: stamps[class], hits: [0; LANES] };
        self.front.pages[at] = page;
        let slot = at % SLOTS;
        self.units[unit as usize].slots[class][slot / 64] |= 1 << (slot % 64);
        if !self.supers.is_empty() {
            self.supers.note_slot(page, class, slot, true);
        }
    }

    /// Takes a page out of the front, if it is there.
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

    /// From now on counts anew which entries for data leave.
    pub fn forget_lost(&mut self) {
        self.front.lost_count = 0;
    }

    /// The pages whose entries for data have left since, if they are few.
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
        let Entry { vpn, stamp, hits } = std::mem::replace(&mut self.front.entries[at], VACANT);
        if vpn == EMPTY {
            return;
        }
        if class != FETCH {
            self.front.lose(vpn);
        }
        let id = self.front.pages[at];
        let page = &mut self.pages[id as usize];
        page.stamps[class] = stamp;
        let (unit, slot) = (page.unit as usize, at % SLOTS);
        self.units[unit].slots[class][slot / 64] &= !(1 << (slot % 64));
        self.unit_stamps[class][unit] = self.unit_stamps[class][unit].max(stamp);
        if !self.supers.is_empty() {
            self.supers.note_slot(id, class, slot, false);
            self.supers.stamp(id, class, stamp);
        }
        self.credit(id, class, hits.into_iter().map(u64::from).sum());
    }

    /// Takes out what a slot holds for `class`.
    pub fn front_clear_slot(&mut self, class: usize, slot: usize) {
        self.front_clear_at(class, class * SLOTS + slot);
    }

    /// Time of the last reference to what a slot holds for `class`.
    pub fn front_stamp(&self, class: usize, slot: usize) -> u64 {
        self.front.entries[class * SLOTS + slot].stamp
    }

    /// Time of the last reference of `class` to a page with these low bits of its number.
    #[inline]
    pub fn page_stamp(&self, page: u32, low: u32, class: usize) -> u64 {
        let at = place(class, low.into());
        let entry = &self.front.entries[at];
        if entry.vpn as u32 == low && self.front.pages[at] == page && entry.vpn != EMPTY {
            entry.stamp
        } else {
            self.pages[page as usize].stamps[class]
        }
    }

    /// Time of the last reference of `class` to a unit. Its pages that are in the front know it better.
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
