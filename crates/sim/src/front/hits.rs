//! The hot loops: references that the front takes, in a row.

use super::{Entry, Front, LANES, Told, place};
use crate::fetch::{FetchHead, FetchTable};
use crate::lookahead::look_ahead;
use crate::store::{FETCH, LOAD, PageStore};
use pagewalk_trace::{Ref, Span};
use pagewalk_units::{PAGE_SHIFT, Size};

/// What [`PageStore::take_fetch_hits`] took.
pub(crate) struct FetchHits {
    /// Block executions.
    pub spans: usize,
    /// Their instructions.
    pub instructions: u64,
    /// Whether the next execution comes before `until` too, but needs more than a look at the front.
    pub more: bool,
}

/// By a record's low bits: how far the reference's last byte lies above its first, as records hold addresses.
const TO_LAST_BYTE: [u64; METAS] = {
    let mut distances = [0; METAS];
    let mut meta = 0;
    while meta < METAS {
        distances[meta] = (Size::from_code((meta >> 2) as u8).bytes() as u64 - 1) << Ref::META_BITS;
        meta += 1;
    }
    distances
};
const METAS: usize = 1 << Ref::META_BITS;

/// How far a reference's last byte lies above the beginning of the page that the entry at its place is of, as records
/// hold addresses: less than a page if it lies in that page as a whole. A reference to another page cannot end in it:
/// the pages of one place are farther apart than references are long.
#[inline(always)]
fn into_page(entry: &Entry, r: Ref, shift: u32) -> u64 {
    let first = r.bits().wrapping_sub(entry.vpn << shift);
    first.wrapping_add(TO_LAST_BYTE[r.bits() as usize % METAS])
}

/// The class of a data reference. `SPLIT`: loads and stores are classes of their own. Stores and modifies have bit 1 of
/// the kind set, loads have not, and LOAD and STORE are neighbours.
#[inline(always)]
fn class_of_data<const SPLIT: bool>(r: Ref) -> usize {
    if SPLIT { LOAD + (r.bits() >> 1 & 1) as usize } else { LOAD }
}

impl PageStore {
    /// Takes references while they hit the front; returns how many. The next one, if any, missed it or
    /// crosses a page boundary. Looks at four at a time: one branch then serves them all. `MINDFUL`: some design is
    /// told of hits. They are kept until the run ends: until then none of its arrays changes otherwise. `BASE`: the
    /// bits of an address below a page's number, or 0 for those of the pass. Shifts by what only the pass knows take
    /// Intel's processors three steps.
    #[inline(always)]
    fn run_data<const SPLIT: bool, const MINDFUL: bool, const BASE: u32>(&mut self, refs: &[Ref]) -> usize {
        let base = if BASE == 0 { self.paging.base().shift() } else { BASE };
        let shift = Ref::META_BITS + base;
        let page_of = |r: Ref| r.bits() >> shift;
        let place_of_data = |r: Ref| place(class_of_data::<SPLIT>(r), page_of(r));
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
        let began = self.now;
        let mut now = began;
        'all: loop {
            for four in refs[(now - began) as usize..].as_chunks::<LANES>().0 {
                look_ahead(four);
                let places = four.map(place_of_data);
                let farthest = four
                    .iter()
                    .zip(&places)
                    .fold(0, |all, (r, &at)| all | into_page(&entries[at], *r, shift));
                if farthest >> shift != 0 {
                    break;
                }
                for (lane, &at) in places.iter().enumerate() {
                    entries[at].hits[lane] += 1;
                    entries[at].stamp = now + 1 + lane as u64;
                    mind(at, four[lane]);
                }
                now += LANES as u64;
            }
            // One at a time: up to the one that stopped the four.
            let rest = &refs[(now - began) as usize..];
            for (i, r) in rest.iter().take(LANES).enumerate() {
                let at = place_of_data(*r);
                if into_page(&entries[at], *r, shift) >> shift != 0 {
                    break 'all;
                }
                now += 1;
                entries[at].hits[i] += 1;
                entries[at].stamp = now;
                mind(at, *r);
            }
            if rest.len() <= LANES {
                break;
            }
        }
        self.now = now;
        (now - began) as usize
    }

    /// [`PageStore::run_data`] for the classes of this run.
    pub fn take_data_hits(&mut self, refs: &[Ref], split: bool) -> usize {
        let usual = self.paging.base().shift() == PAGE_SHIFT;
        let taken = match (split, self.front.latest.is_some()) {
            (false, false) if usual => self.run_data::<false, false, PAGE_SHIFT>(refs),
            (true, false) if usual => self.run_data::<true, false, PAGE_SHIFT>(refs),
            (_, minded) => self.take_other_data_hits(refs, split, minded),
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
    fn take_other_data_hits(&mut self, refs: &[Ref], split: bool, minded: bool) -> usize {
        match (split, minded) {
            (false, false) => self.run_data::<false, false, 0>(refs),
            (false, true) => self.run_data::<false, true, 0>(refs),
            (true, false) => self.run_data::<true, false, 0>(refs),
            (true, true) => self.run_data::<true, true, 0>(refs),
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
        let heads = fetches.heads.as_slice();
        let mut now = self.now;
        let mut taken = FetchHits { spans: spans.len(), instructions: 0, more: false };
        for (i, span) in spans.iter().enumerate() {
            if span.first as usize > until {
                taken.spans = i;
                break;
            }
            let head = heads[span.block.index()];
            let entry = &mut self.front.entries[place(FETCH, head.vpn)];
            if entry.vpn == head.vpn {
                now += 1;
                entry.hits[i % LANES] += head.translations;
                entry.stamp = now;
                if MINDFUL {
                    self.mind_fetch(head.vpn);
                }
            } else {
                self.now = now;
                if !self.fetch_several::<MINDFUL>(head, span.first, fetches, until) {
                    (taken.spans, taken.more) = (i, true);
                    break;
                }
                now = self.now;
            }
            taken.instructions += u64::from(head.instructions);
        }
        self.now = now;
        // An instruction lies on two pages at most.
        self.front_make_room(2 * taken.instructions);
        taken
    }

    /// Takes a block that is several runs, if the front holds all their pages.
    #[inline(never)]
    fn fetch_several<const MINDFUL: bool>(
        &mut self,
        head: FetchHead,
        first: u32,
        fetches: &FetchTable,
        until: usize,
    ) -> bool {
        // Hits of several pages move nothing but stamps, whatever data references lie between them.
        let runs = if head.is_several() { fetches.runs(head) } else { &[] };
        let apart = runs.is_empty() || self.may_merge && head.crosses();
        if apart || !fetches.may_take(runs, first, until) {
            return false;
        }
        let entries = &mut *self.front.entries;
        for run in runs {
            if entries[place(FETCH, run.vpn)].vpn != run.vpn {
                return false;
            }
        }
        let mut now = self.now;
        for run in runs {
            now += 1;
            let entry = &mut entries[place(FETCH, run.vpn)];
            entry.hits[0] += run.translations;
            entry.stamp = now;
        }
        self.now = now;
        if MINDFUL {
            runs.iter().for_each(|run| self.mind_fetch(run.vpn));
        }
        true
    }

    /// Notes a fetch from a page that the front holds, if some design is to be told of it.
    #[inline]
    fn mind_fetch(&mut self, vpn: u64) {
        if let Some(latest) = &mut self.front.latest
            && !latest.note_alone(FETCH, vpn)
        {
            self.front.told.push(Told { class: FETCH as u32, page: self.front.pages[place(FETCH, vpn)] });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::SLOTS;
    use super::*;
    use pagewalk_units::{Access, Kind, VirtAddr};

    const PAGE: u64 = 1 << PAGE_SHIFT;

    fn is_in(entry: &Entry, address: u64, size: Size) -> bool {
        let r = Ref::new(VirtAddr(address), Access { kind: Kind::Load, size });
        into_page(entry, r, Ref::META_BITS + PAGE_SHIFT) >> (Ref::META_BITS + PAGE_SHIFT) == 0
    }

    /// The pages that have one place, and the ends of the address space.
    fn pages_of(slot: u64) -> [u64; 4] {
        let slots = SLOTS as u64;
        [slot, slot + slots, slot + 7 * slots, Ref::ADDRESS_END / PAGE - slots + slot]
    }

    #[test]
    fn a_reference_is_in_a_page_with_all_its_bytes() {
        for slot in [0, 1, 2, 3, 17, SLOTS as u64 - 2, SLOTS as u64 - 1] {
            for size in (0..32).map(Size::from_code) {
                let last = PAGE.saturating_sub(size.bytes().into());
                for (page, offset) in pages_of(slot)
                    .into_iter()
                    .flat_map(|page| [0, last, last + 1, PAGE - 1].map(|offset| (page, offset)))
                {
                    let address = page * PAGE + offset;
                    let fits = offset + u64::from(size.bytes()) <= PAGE;
                    for vpn in pages_of(slot) {
                        let entry = Entry { vpn, stamp: 0, hits: [0; LANES] };
                        assert_eq!(
                            is_in(&entry, address, size),
                            fits && vpn == page,
                            "{address:#x} {size:?}"
                        );
                    }
                    let vacant = Entry::vacant(slot as usize + SLOTS);
                    assert!(!is_in(&vacant, address, size), "{address:#x} {size:?}");
                }
            }
        }
    }
}
