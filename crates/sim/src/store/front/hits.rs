//! The hot loops: consecutive hits of the front.
//!
//! Four records in a thousand miss the front on CPython, six on cc1. A data hit takes 13 instructions, a block on one
//! page 22, on two 80, a miss 1,240–1,400.
//!
//! docs/explanation/speed.md tells what was tried without gain.

use super::{Entry, Front, HitNotice, LANES, MASK, SLOTS, place};
use crate::classes::{FETCH, LOAD, STORE};
use crate::fetch::{FetchTable, Run};
use crate::store::PageStore;
use crate::store::last_pages::LastPages;
use crate::store::lookahead::look_ahead;
use pagewalk_trace::{Ref, Span};
use pagewalk_units::{PAGE_SHIFT, Size};

/// The executions that [`PageStore::take_fetch_hits`] took.
pub(crate) struct FetchHits {
    /// Block executions.
    pub spans: usize,
    /// Their instructions.
    pub instructions: u64,
    /// Whether the next execution also comes before `until`, but misses the front.
    pub more: bool,
}

/// The distance from a reference's first to its last byte, as records hold addresses, by the record's low bits.
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

/// The distance from the start of an entry's page to a reference's last byte, as records hold addresses: less than a
/// page if the reference lies in that page. A reference to another page cannot end in it, because pages of one slot are
/// farther apart than references are long.
#[inline(always)]
fn into_page(entry: &Entry, r: Ref) -> u64 {
    let first = r.bits().wrapping_sub(entry.tag);
    first.wrapping_add(TO_LAST_BYTE[r.bits() as usize % METAS])
}

/// The class of a data reference. `SPLIT`: loads and stores are separate classes. Stores and modifies have bit 1 of the
/// kind set, loads do not, and STORE follows LOAD.
#[inline(always)]
fn class_of_data<const SPLIT: bool>(r: Ref) -> usize {
    if SPLIT { LOAD + (r.bits() >> 1 & 1) as usize } else { LOAD }
}

/// Records a fetch to report, unless it repeats its set's last page.
#[inline(always)]
fn mind_fetch(latest: Option<&mut LastPages>, told: &mut Vec<HitNotice>, vpn: u64, page: u32) {
    if latest.is_some_and(|latest| !latest.note_alone(FETCH, vpn)) {
        told.push(HitNotice { class: FETCH as u32, page });
    }
}

impl PageStore {
    /// Takes references while they hit the front; returns their number. The next one, if any, misses or crosses a page
    /// boundary. `split`: loads and stores are separate classes.
    pub fn take_data_hits(&mut self, refs: &[Ref], split: bool) -> usize {
        let taken = match (self.paging.base().shift(), self.front.latest.is_some(), self.minds_units) {
            (PAGE_SHIFT, false, false) => self.run_data_of::<false, false, PAGE_SHIFT>(refs, split),
            (PAGE_SHIFT, false, true) => self.run_data_of::<false, true, PAGE_SHIFT>(refs, split),
            _ => self.take_other_data_hits(refs, split),
        };
        self.front_make_room(taken as u64);
        taken
    }

    // A separate function, so that it takes no registers from the loops above.
    #[inline(never)]
    fn take_other_data_hits(&mut self, refs: &[Ref], split: bool) -> usize {
        match (self.paging.base().shift(), self.front.latest.is_some(), self.minds_units) {
            (PAGE_SHIFT, true, false) => self.run_data_of::<true, false, PAGE_SHIFT>(refs, split),
            (_, true, _) => self.run_data_of::<true, true, 0>(refs, split),
            (_, false, _) => self.run_data_of::<false, true, 0>(refs, split),
        }
    }

    #[inline(always)]
    fn run_data_of<const MINDFUL: bool, const COUNT: bool, const BASE: u32>(
        &mut self,
        refs: &[Ref],
        split: bool,
    ) -> usize {
        match split {
            false => self.run_data::<false, MINDFUL, COUNT, BASE>(refs),
            true => self.run_data::<true, MINDFUL, COUNT, BASE>(refs),
        }
    }

    /// [`PageStore::take_data_hits`], four at a time, with one branch for all four. `MINDFUL`: some design needs hits,
    /// which are recorded until the run of hits ends, since its arrays cannot change before. `COUNT`: count references
    /// by page. `BASE`: the bits of an address below a page's number, or 0 for the pass's own. Variable shifts take
    /// Intel's processors three steps.
    #[inline(always)]
    fn run_data<const SPLIT: bool, const MINDFUL: bool, const COUNT: bool, const BASE: u32>(
        &mut self,
        refs: &[Ref],
    ) -> usize {
        let base = if BASE == 0 { self.paging.base().shift() } else { BASE };
        let shift = Ref::META_BITS + base;
        let page_of = |r: Ref| r.bits() >> shift;
        // Offset among the data entries: stores and modifies have bit 1 of the kind set.
        let stores = |r: Ref| if SPLIT { r.bits() & 2 } else { 0 };
        let place_of_data = |r: Ref| ((page_of(r) & MASK) + stores(r) * (SLOTS as u64 / 2)) as usize;
        let Front { entries, latest, told, pages, .. } = &mut self.front;
        let entries: &mut [Entry; 2 * SLOTS] =
            entries[LOAD * SLOTS..].first_chunk_mut().expect("two classes follow");
        let mut mind = |at: usize, r: Ref| {
            if let (true, Some(latest)) = (MINDFUL, &mut *latest) {
                // Most hits change nothing, but which ones do is hard to predict.
                let class = class_of_data::<SPLIT>(r);
                let minded = if SPLIT {
                    !latest.note(class, page_of(r), false)
                } else {
                    !latest.note_alone(class, page_of(r))
                };
                told.push(HitNotice { class: class as u32, page: pages[LOAD * SLOTS + at] });
                told.truncate(told.len() - usize::from(!minded));
            }
        };
        let began = self.now;
        let mut now = began;
        'all: loop {
            for four in refs[(now - began) as usize..].as_chunks::<LANES>().0 {
                look_ahead(four);
                let places = four.map(place_of_data);
                let farthest =
                    four.iter().zip(&places).fold(0, |all, (r, &at)| all | into_page(&entries[at], *r));
                if farthest >> shift != 0 {
                    break;
                }
                for (lane, &at) in places.iter().enumerate() {
                    entries[at].hits[lane] += u32::from(COUNT);
                    entries[at].stamp = now + 1 + lane as u64;
                    mind(at, four[lane]);
                }
                now += LANES as u64;
            }
            // One at a time, up to the reference that stopped the four.
            let rest = &refs[(now - began) as usize..];
            for (i, r) in rest.iter().take(LANES).enumerate() {
                let at = place_of_data(*r);
                if into_page(&entries[at], *r) >> shift != 0 {
                    break 'all;
                }
                now += 1;
                entries[at].hits[i] += u32::from(COUNT);
                entries[at].stamp = now;
                mind(at, *r);
            }
            if rest.len() <= LANES {
                break;
            }
        }
        self.now = now;
        let taken = (now - began) as usize;
        if !COUNT {
            let stores = refs[..taken].iter().map(|&r| stores(r)).sum::<u64>() / 2;
            self.totals[LOAD] += taken as u64 - stores;
            self.totals[STORE] += stores;
        }
        taken
    }

    /// Takes block executions up to data reference `until` while the front holds all their pages: one hit per
    /// translation.
    pub fn take_fetch_hits(&mut self, spans: &[Span], fetches: &FetchTable, until: usize) -> FetchHits {
        match (self.front.latest.is_some(), self.minds_units) {
            (false, false) => self.run_fetches::<false, false>(spans, fetches, until),
            (false, true) => self.run_fetches::<false, true>(spans, fetches, until),
            (true, _) => self.take_minded_fetch_hits(spans, fetches, until),
        }
    }

    #[inline(never)]
    fn take_minded_fetch_hits(&mut self, spans: &[Span], fetches: &FetchTable, until: usize) -> FetchHits {
        match self.minds_units {
            false => self.run_fetches::<true, false>(spans, fetches, until),
            true => self.run_fetches::<true, true>(spans, fetches, until),
        }
    }

    #[inline(always)]
    fn run_fetches<const MINDFUL: bool, const COUNT: bool>(
        &mut self,
        spans: &[Span],
        fetches: &FetchTable,
        until: usize,
    ) -> FetchHits {
        let until = u32::try_from(until).unwrap_or(u32::MAX);
        let mut taken = FetchHits { spans: 0, instructions: 0, more: false };
        loop {
            self.run_single_fetches::<MINDFUL, COUNT>(spans, fetches, until, &mut taken);
            let next = spans.get(taken.spans).filter(|span| span.first <= until);
            let Some(span) = next else { break };
            let head = fetches.heads[span.block.index()];
            let runs = fetches.takeable(head, span.first, until, self.may_merge);
            // Constant lengths for the compiler: most are pairs.
            let took = match runs {
                &[one, other] => self.take_runs::<MINDFUL>(&[one, other]),
                _ => self.take_many_runs::<MINDFUL>(runs),
            };
            if !took {
                taken.more = true;
                break;
            }
            taken.spans += 1;
            taken.instructions += u64::from(head.instructions);
        }
        // An instruction lies on two pages at most.
        self.front_make_room(2 * taken.instructions);
        taken
    }

    /// Takes executions of blocks of one run, up to the first other block.
    #[inline(always)]
    fn run_single_fetches<const MINDFUL: bool, const COUNT: bool>(
        &mut self,
        spans: &[Span],
        fetches: &FetchTable,
        until: u32,
        taken: &mut FetchHits,
    ) {
        let Front { entries, latest, told, pages, .. } = &mut self.front;
        let (entries, pages) = (&mut **entries, &**pages);
        let heads = fetches.heads.as_slice();
        let (mut now, mut instructions, mut translations) = (self.now, 0, 0);
        let rest = &spans[taken.spans..];
        let mut took = rest.len();
        for (i, span) in rest.iter().enumerate() {
            if span.first > until {
                took = i;
                break;
            }
            let head = heads[span.block.index()];
            let at = place(FETCH, head.vpn);
            let entry = &mut entries[at];
            if entry.tag != head.vpn {
                took = i;
                break;
            }
            now += 1;
            entry.stamp = now;
            if COUNT {
                entry.hits[i % LANES] += head.translations;
            }
            translations += u64::from(head.translations);
            instructions += u64::from(head.instructions);
            if MINDFUL {
                mind_fetch(latest.as_mut(), told, head.vpn, pages[at]);
            }
        }
        taken.spans += took;
        taken.instructions += instructions;
        if !COUNT {
            self.totals[FETCH] += translations;
        }
        self.now = now;
    }

    /// Takes the runs of a block of several, if the front holds all their pages. It always counts by page, which is
    /// free here.
    #[inline(always)]
    fn take_runs<const MINDFUL: bool>(&mut self, runs: &[Run]) -> bool {
        let Front { entries, latest, told, pages, .. } = &mut self.front;
        if runs.iter().any(|run| entries[place(FETCH, run.vpn)].tag != run.vpn) {
            return false;
        }
        for run in runs {
            self.now += 1;
            let at = place(FETCH, run.vpn);
            entries[at].hits[0] += run.translations;
            entries[at].stamp = self.now;
            if MINDFUL {
                mind_fetch(latest.as_mut(), told, run.vpn, pages[at]);
            }
        }
        true
    }

    #[inline(never)]
    fn take_many_runs<const MINDFUL: bool>(&mut self, runs: &[Run]) -> bool {
        !runs.is_empty() && self.take_runs::<MINDFUL>(runs)
    }
}

#[cfg(test)]
mod tests {
    use super::super::vacant;
    use super::*;
    use pagewalk_units::{Access, Kind, VirtAddr};

    const PAGE: u64 = 1 << PAGE_SHIFT;
    const SHIFT: u32 = Ref::META_BITS + PAGE_SHIFT;

    fn is_in(entry: &Entry, address: u64, size: Size) -> bool {
        let r = Ref::new(VirtAddr(address), Access { kind: Kind::Load, size });
        into_page(entry, r) >> SHIFT == 0
    }

    /// Pages of one slot, and the ends of the address space.
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
                        let entry = Entry { tag: vpn << SHIFT, stamp: 0, hits: [0; LANES] };
                        assert_eq!(
                            is_in(&entry, address, size),
                            fits && vpn == page,
                            "{address:#x} {size:?}"
                        );
                    }
                    let vacant = vacant(slot as usize + SLOTS, SHIFT);
                    assert!(!is_in(&vacant, address, size), "{address:#x} {size:?}");
                }
            }
        }
    }
}
