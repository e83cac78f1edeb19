//! One array under all its layouts, with a shared fully associative twin.

use super::{LaneCounts, Page};
use crate::evictions::{ArraySpec, Misses, Side};
use pagewalk_units::Vpn;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Marks an empty way; no page has this number.
const EMPTY: u32 = u32::MAX;
/// Lanes per word of bits.
const BITS: usize = 64;

/// The twin's data of a page.
#[derive(Clone, Copy, Debug, Default)]
struct TwinPage {
    /// Whether the twin holds it.
    resident: bool,
    /// Whether it is in the heap, perhaps from an earlier stay.
    queued: bool,
    /// Whether it was referenced since its mapping changed.
    known: bool,
}

/// The array under one layout.
struct LaneState {
    layout: Option<usize>,
    /// By page: its set.
    sets: Vec<u32>,
    /// Pages by set, in no order, each with the side that brought it.
    ways: Vec<(u32, Side)>,
    split: LaneCounts,
    /// By page: evictions that involve it.
    involved: Vec<u64>,
}

/// An array under several layouts.
pub(super) struct Group {
    spec: ArraySpec,
    lanes: Vec<LaneState>,
    /// By page: the lanes that hold it, in as many words as needed.
    resident: Vec<u64>,
    twin: Vec<TwinPage>,
    residents: usize,
    /// Times of last use at insertion, with pages; see `evictions/twin.rs`.
    oldest: BinaryHeap<Reverse<(u64, u32)>>,
}

/// Why a lane missed.
#[derive(Clone, Copy)]
enum Cause {
    Compulsory,
    Capacity,
    Conflict,
}

impl Group {
    pub fn new(spec: &ArraySpec) -> Group {
        Group {
            spec: spec.clone(),
            lanes: Vec::new(),
            resident: Vec::new(),
            twin: Vec::new(),
            residents: 0,
            oldest: BinaryHeap::new(),
        }
    }

    /// Whether it simulates such an array, under any name.
    pub fn is_of(&self, spec: &ArraySpec) -> bool {
        let ArraySpec { name: _, geometry, index, fetches, data } = spec;
        (self.spec.geometry, self.spec.index) == (*geometry, *index)
            && (self.spec.fetches, self.spec.data) == (*fetches, *data)
    }

    /// Adds a layout before the stream begins; returns its index.
    pub fn add(&mut self, layout: Option<usize>) -> usize {
        let geometry = self.spec.geometry;
        self.lanes.push(LaneState {
            layout,
            sets: Vec::new(),
            ways: vec![(EMPTY, Side::Fetch); geometry.entries()],
            split: LaneCounts {
                misses: Misses::default(),
                misses_by_set: vec![0; geometry.sets()],
                evictions: [[0; 2]; 2],
                most_involved: 0,
            },
            involved: Vec::new(),
        });
        self.lanes.len() - 1
    }

    pub fn serves(&self, side: Side) -> bool {
        match side {
            Side::Fetch => self.spec.fetches,
            Side::Data => self.spec.data,
        }
    }

    fn words(&self) -> usize {
        self.lanes.len().div_ceil(BITS)
    }

    /// Adds a page: its recorded number, and its number in each layout.
    pub fn meet(&mut self, page: u32, recorded: u64, moved: &[u64]) {
        let at = page as usize;
        if self.twin.len() <= at {
            self.twin.resize(at + 1, TwinPage::default());
            self.resident.resize((at + 1) * self.words(), 0);
        }
        for lane in &mut self.lanes {
            let vpn = lane.layout.map_or(recorded, |layout| moved[layout]);
            if lane.sets.len() <= at {
                lane.sets.resize(at + 1, 0);
                lane.involved.resize(at + 1, 0);
            }
            lane.sets[at] = self.spec.set_of(Vpn(vpn)) as u32;
        }
    }

    /// Inserts a page that is referenced now into all lanes that miss it, and into the twin.
    pub fn settle(&mut self, page: u32, side: Side, pages: &mut [Page]) {
        let TwinPage { resident, known, .. } = self.twin[page as usize];
        let cause = match (known, resident) {
            (false, _) => Cause::Compulsory,
            (true, false) => Cause::Capacity,
            (true, true) => Cause::Conflict,
        };
        let words = self.words();
        for word in 0..words {
            let first = word * BITS;
            let lanes = (self.lanes.len() - first).min(BITS);
            let all = u64::MAX >> (BITS - lanes);
            let held = self.resident[page as usize * words + word];
            for lane in ones(all & !held) {
                self.miss(first + lane, page, side, cause, pages);
            }
            if !resident {
                ones(held).for_each(|lane| self.lanes[first + lane].split.misses.spared += 1);
            }
            self.resident[page as usize * words + word] = all;
        }
        if !resident {
            self.take(page, pages);
        }
        self.twin[page as usize].known = true;
    }

    /// The page's last use by what the array serves.
    fn last(&self, page: u32, pages: &[Page]) -> u64 {
        let [fetch, data] = pages[page as usize].last;
        match (self.spec.fetches, self.spec.data) {
            (true, true) => fetch.max(data),
            (true, false) => fetch,
            _ => data,
        }
    }

    fn miss(&mut self, number: usize, page: u32, side: Side, cause: Cause, pages: &mut [Page]) {
        let ways = self.spec.geometry.ways();
        let set = self.lanes[number].sets[page as usize] as usize;
        let first = set * ways;
        let key = |way: &usize| match self.lanes[number].ways[first + way].0 {
            EMPTY => 0,
            other => self.last(other, pages),
        };
        // The earliest; the clock is above 0 for every page.
        let way = first + (0..ways).min_by_key(key).expect("a set has ways");
        let words = self.words();
        let lane = &mut self.lanes[number];
        let split = &mut lane.split;
        split.misses_by_set[set] += 1;
        match cause {
            Cause::Compulsory => split.misses.compulsory += 1,
            Cause::Capacity => split.misses.capacity += 1,
            Cause::Conflict => split.misses.conflict += 1,
        }
        let (victim, victim_side) = std::mem::replace(&mut lane.ways[way], (page, side));
        if victim == EMPTY {
            return;
        }
        split.evictions[side as usize][victim_side as usize] += 1;
        lane.involved[page as usize] += 1;
        lane.involved[victim as usize] += 1;
        self.resident[victim as usize * words + number / BITS] &= !(1 << (number % BITS));
        self.left(victim, pages);
    }

    /// A page is no longer everywhere.
    fn left(&self, page: u32, pages: &mut [Page]) {
        let sides = u8::from(self.spec.fetches) | u8::from(self.spec.data) << 1;
        pages[page as usize].whole &= !sides;
    }

    /// Inserts a page into the twin, evicting the earliest used if it is full.
    fn take(&mut self, page: u32, pages: &mut [Page]) {
        if self.residents == self.spec.geometry.entries() {
            self.evict(pages);
        }
        self.residents += 1;
        self.twin[page as usize].resident = true;
        if !std::mem::replace(&mut self.twin[page as usize].queued, true) {
            self.oldest.push(Reverse((self.last(page, pages), page)));
        }
    }

    fn evict(&mut self, pages: &mut [Page]) {
        while let Some(Reverse((time, page))) = self.oldest.pop() {
            let last = self.last(page, pages);
            let of = &mut self.twin[page as usize];
            if of.resident && last != time {
                self.oldest.push(Reverse((last, page)));
                continue;
            }
            of.queued = false;
            if std::mem::take(&mut of.resident) {
                self.residents -= 1;
                return self.left(page, pages);
            }
        }
    }

    /// Removes a page from all lanes and the twin; its next reference counts as a first one.
    pub fn invalidate(&mut self, page: u32) {
        let (words, ways) = (self.words(), self.spec.geometry.ways());
        let TwinPage { resident, known, .. } = &mut self.twin[page as usize];
        self.residents -= usize::from(std::mem::take(resident));
        *known = false;
        for word in 0..words {
            let held = std::mem::take(&mut self.resident[page as usize * words + word]);
            for lane in ones(held) {
                let lane = &mut self.lanes[word * BITS + lane];
                let first = lane.sets[page as usize] as usize * ways;
                let way = lane.ways[first..first + ways].iter_mut().find(|way| way.0 == page);
                way.expect("it is held").0 = EMPTY;
            }
        }
    }

    pub fn finish(self) -> Vec<LaneCounts> {
        let split = |lane: LaneState| LaneCounts {
            most_involved: lane.involved.iter().copied().max().unwrap_or(0),
            ..lane.split
        };
        self.lanes.into_iter().map(split).collect()
    }
}

/// The positions of a word's set bits, ascending.
fn ones(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let place = (word != 0).then(|| word.trailing_zeros() as usize)?;
        word &= word - 1;
        Some(place)
    })
}
