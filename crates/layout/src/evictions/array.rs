//! One array and its twin, reference by reference.

use super::fetches::{FetchStep, FetchTable};
use super::rows::{Pair, Rows};
use super::twin::{Twin, TwinPage};
use super::{ArrayHistory, ArraySpec, Misses, PageHistory, Side};
use crate::objects::{OwnerId, Owners};
use pagewalk_setassoc::SetIndex;
use pagewalk_trace::{Batch, Ref};
use pagewalk_units::{PAGE_BYTES, PAGE_SHIFT, Vpn};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// Marks an empty way; no page has this number.
const EMPTY: u64 = u64::MAX;

/// Page data used only by misses.
#[derive(Clone, Copy, Debug)]
struct MissState {
    vpn: u64,
    owner: OwnerId,
    file_offset: Option<u64>,
    /// Whether no array could hold it: not referenced yet, or not since its mapping changed.
    fresh: bool,
    misses: [u64; 2],
    evicted: u64,
    /// Of these, pages of its own owner.
    evicted_own: u64,
    was_evicted: u64,
}

/// A page in a way, and the side that brought it.
#[derive(Clone, Copy, Debug)]
struct WayContent {
    page: u32,
    side: Side,
}

/// A watched array.
pub(super) struct WatchedArray {
    spec: ArraySpec,
    ways: usize,
    /// Mask of the page number's low bits, if these alone select the set.
    mask: Option<u64>,
    /// Page numbers by set, most recently used first.
    keys: Vec<u64>,
    /// The content of each way of `keys`.
    held: Vec<WayContent>,
    /// Counts references to a page other than the previous one.
    clock: u64,
    twin: Twin,
    /// By page: data written by hits.
    uses: Vec<TwinPage>,
    /// By page: the rest.
    past: Vec<MissState>,
    /// By page number: the page, if its mapping has not changed since its last reference.
    live: FxHashMap<u64, u32>,
    /// All pages so far.
    all: FxHashMap<(u64, OwnerId), u32>,
    misses: Misses,
    misses_by_set: Vec<u64>,
    evictions: [[u64; 2]; 2],
    rows: Rows,
}

/// A reference to a page.
#[derive(Clone, Copy)]
struct Reference {
    vpn: u64,
    side: Side,
    /// The address fetched, loaded or stored.
    address: u64,
}

impl WatchedArray {
    pub fn new(spec: ArraySpec, rows: usize) -> WatchedArray {
        let geometry = spec.geometry;
        WatchedArray {
            ways: geometry.ways(),
            mask: (spec.index == SetIndex::Modulo).then(|| geometry.sets() as u64 - 1),
            keys: vec![EMPTY; geometry.entries()],
            held: vec![WayContent { page: 0, side: Side::Fetch }; geometry.entries()],
            clock: 0,
            twin: Twin::new(geometry.entries()),
            uses: Vec::new(),
            past: Vec::new(),
            live: FxHashMap::default(),
            all: FxHashMap::default(),
            misses: Misses::default(),
            misses_by_set: vec![0; geometry.sets()],
            evictions: [[0; 2]; 2],
            rows: Rows::new(rows),
            spec,
        }
    }

    /// Processes the references of a batch that the array serves.
    pub fn batch(&mut self, batch: &Batch<'_>, fetches: &FetchTable, owners: &Owners) {
        if !self.spec.fetches {
            return self.data(batch, 0..batch.refs.len(), owners);
        }
        for (index, span) in batch.spans.iter().enumerate() {
            let steps = fetches.of(span.block.index());
            if !self.spec.data {
                steps.iter().filter(|step| step.count > 0).for_each(|step| self.fetch(step, owners));
                continue;
            }
            let mut next = span.first as usize;
            for step in steps {
                let site = span.first as usize + step.site as usize;
                self.data(batch, next..site, owners);
                next = site;
                self.fetch(step, owners);
            }
            self.data(batch, next..batch.span_end(index), owners);
        }
    }

    #[inline(always)]
    fn fetch(&mut self, step: &FetchStep, owners: &Owners) {
        let reference = Reference { vpn: step.vpn, side: Side::Fetch, address: step.address };
        self.refer(reference, step.count.into(), owners);
    }

    #[inline(always)]
    fn data(&mut self, batch: &Batch<'_>, range: Range<usize>, owners: &Owners) {
        for &record in &batch.refs[range] {
            let address = record.address().0;
            let vpn = address >> PAGE_SHIFT;
            self.refer(Reference { vpn, side: Side::Data, address }, 1, owners);
            if may_cross(record, batch.wide) {
                for vpn in vpn + 1..=record.last_vpn().0 {
                    let address = vpn << PAGE_SHIFT;
                    self.refer(Reference { vpn, side: Side::Data, address }, 1, owners);
                }
            }
        }
    }

    /// References a page `count` times in a row; with 0, again after references that were counted already.
    #[inline(always)]
    fn refer(&mut self, reference: Reference, count: u64, owners: &Owners) {
        let set = self.set_of(reference.vpn);
        let first = set * self.ways;
        self.clock += 1;
        let page = if self.keys[first] == reference.vpn {
            self.held[first].page
        } else {
            self.search(set, reference, owners)
        };
        let used = &mut self.uses[page as usize];
        used.references[reference.side as usize] += count;
        used.last = self.clock;
        if !used.resident {
            self.spare(page);
        }
    }

    #[inline(always)]
    fn set_of(&self, vpn: u64) -> usize {
        match self.mask {
            Some(mask) => (vpn & mask) as usize,
            None => self.spec.index.set_of(self.spec.geometry, vpn),
        }
    }

    /// A hit that misses in the twin.
    #[cold]
    fn spare(&mut self, page: u32) {
        self.misses.spared += 1;
        self.twin.take(page, &mut self.uses);
    }

    /// A reference to a page other than the set's most recent: finds it, or inserts it. It becomes the most recent.
    fn search(&mut self, set: usize, reference: Reference, owners: &Owners) -> u32 {
        let ways = set * self.ways..(set + 1) * self.ways;
        let (keys, held) = (&mut self.keys[ways.clone()], &mut self.held[ways]);
        match keys.iter().position(|&key| key == reference.vpn) {
            Some(way) => {
                keys[..=way].rotate_right(1);
                held[..=way].rotate_right(1);
                held[0].page
            }
            None => self.miss(set, reference, owners),
        }
    }

    fn miss(&mut self, set: usize, reference: Reference, owners: &Owners) -> u32 {
        let Reference { vpn, side, address } = reference;
        let page = self.page(vpn, owners);
        self.misses_by_set[set] += 1;
        let past = &mut self.past[page as usize];
        past.misses[side as usize] += 1;
        let is_fresh = std::mem::take(&mut past.fresh);
        let used = &mut self.uses[page as usize];
        used.last = self.clock;
        match (is_fresh, used.resident) {
            (true, _) => self.misses.compulsory += 1,
            (false, true) => self.misses.conflict += 1,
            (false, false) => self.misses.capacity += 1,
        }
        if !used.resident {
            self.twin.take(page, &mut self.uses);
        }
        let ways = set * self.ways..(set + 1) * self.ways;
        let (keys, held) = (&mut self.keys[ways.clone()], &mut self.held[ways]);
        // Empty ways are last.
        let (key, victim) = (keys[self.ways - 1], held[self.ways - 1]);
        keys.rotate_right(1);
        held.rotate_right(1);
        keys[0] = vpn;
        held[0] = WayContent { page, side };
        if key != EMPTY {
            let is_own = self.past[page as usize].owner == self.past[victim.page as usize].owner;
            self.past[page as usize].evicted += 1;
            self.past[page as usize].evicted_own += u64::from(is_own);
            self.past[victim.page as usize].was_evicted += 1;
            self.evictions[side as usize][victim.side as usize] += 1;
            let pair = Pair {
                victimiser: page,
                victim: victim.page,
                victimiser_side: side,
                victim_side: victim.side,
            };
            self.rows.add(pair, set as u32, address);
        }
        page
    }

    /// The page of a number that is not in the array.
    fn page(&mut self, vpn: u64, owners: &Owners) -> u32 {
        if let Some(&page) = self.live.get(&vpn) {
            return page;
        }
        let owner = owners.at(vpn << PAGE_SHIFT);
        let new = u32::try_from(self.past.len()).expect("fewer than 2^32 pages");
        let page = *self.all.entry((vpn, owner)).or_insert(new);
        if page == new {
            let file_offset = owners.file_offset(vpn << PAGE_SHIFT);
            self.past.push(MissState {
                vpn,
                owner,
                file_offset,
                fresh: true,
                misses: [0; 2],
                evicted: 0,
                evicted_own: 0,
                was_evicted: 0,
            });
            self.uses.push(TwinPage::default());
        }
        self.live.insert(vpn, page);
        page
    }

    /// Invalidates these pages' translations; they may get other owners.
    pub fn invalidate(&mut self, pages: Range<u64>) {
        if ((pages.end - pages.start) as usize) < self.live.len() {
            pages.for_each(|vpn| self.invalidate_one(vpn));
        } else {
            let live: Vec<u64> = self.live.keys().copied().filter(|vpn| pages.contains(vpn)).collect();
            live.into_iter().for_each(|vpn| self.invalidate_one(vpn));
        }
    }

    fn invalidate_one(&mut self, vpn: u64) {
        let Some(page) = self.live.remove(&vpn) else { return };
        self.past[page as usize].fresh = true;
        self.twin.remove(page, &mut self.uses);
        let set = self.set_of(vpn);
        let ways = set * self.ways..(set + 1) * self.ways;
        let (keys, held) = (&mut self.keys[ways.clone()], &mut self.held[ways]);
        if let Some(way) = keys.iter().position(|&key| key == vpn) {
            keys[way..].rotate_left(1);
            held[way..].rotate_left(1);
            keys[self.ways - 1] = EMPTY;
        }
    }

    pub fn finish(self) -> ArrayHistory {
        let pages = self.past.iter().zip(&self.uses).map(|(past, used)| PageHistory {
            page: Vpn(past.vpn),
            owner: past.owner,
            file_offset: past.file_offset,
            references: used.references,
            misses: past.misses,
            evicted: past.evicted,
            evicted_own: past.evicted_own,
            was_evicted: past.was_evicted,
        });
        let pages: Vec<PageHistory> = pages.collect();
        let by_side = |of: fn(&PageHistory) -> [u64; 2]| {
            pages.iter().map(of).fold([0; 2], |[a, b], [c, d]| [a + c, b + d])
        };
        ArrayHistory {
            references: by_side(|page| page.references),
            misses_by_side: by_side(|page| page.misses),
            array: self.spec,
            misses: self.misses,
            misses_by_set: self.misses_by_set,
            evictions: self.evictions,
            pages,
            dropped: self.rows.dropped,
            rows: self.rows.finish(),
        }
    }
}

/// Whether a reference may cross pages; true whenever it does.
#[inline(always)]
pub(crate) fn may_cross(record: Ref, wide: bool) -> bool {
    let into = record.address().0 & (PAGE_BYTES - 1);
    wide || into > PAGE_BYTES - u64::from(Batch::WIDE_BYTES)
}
