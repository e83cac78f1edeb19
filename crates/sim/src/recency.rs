//! Least-recently-used sets whose entries' times lie with the pages.
//!
//! The pages carry the time of their last reference, shared by all designs, so an array keeps none of its own that
//! would have to be written on each hit. What it keeps is the times that it has seen: lower bounds, in order.

use crate::held::{Held, Packed};
use crate::store::{CLASSES, PageStore};
use pagewalk_setassoc::{Geometry, SetIndex};

/// An entry.
#[derive(Clone, Copy, Debug)]
struct Slot {
    held: Packed,
    /// The low bits of its page number: enough to look it up in the front.
    low: u32,
}

const VACANT: Slot = Slot { held: Packed::EMPTY, low: 0 };

/// Sets of so many ways are looked through as they are: what orders them costs more than it saves.
const FEW: usize = 8;

/// The entries of one array, replaced by the times of their pages.
#[derive(Clone, Debug)]
pub(crate) struct Recency {
    geometry: Geometry,
    index: SetIndex,
    /// Classes of the references that count.
    classes: [bool; CLASSES],
    /// The only one, if there is one.
    only: Option<usize>,
    /// Ways of a set in the lists below: a power of two. Those that the array does not have are never oldest.
    stride: usize,
    /// Whether sets are ordered: the two lists that follow the entries are kept.
    ordered: bool,
    slots: Vec<Slot>,
    /// A time that the last reference to the entry was not before; 0 for empty ways.
    seen: Vec<u64>,
    /// The ways of each set as a tournament: the inner nodes of a binary tree, from index 1 on, each with the way
    /// below it that was seen least recently.
    winners: Vec<u32>,
}

impl Recency {
    /// An empty array.
    pub fn new(geometry: Geometry, index: SetIndex, classes: [bool; CLASSES]) -> Recency {
        let stride = geometry.ways().next_power_of_two();
        let times = (0..stride).map(|way| if way < geometry.ways() { 0 } else { u64::MAX });
        let times: Vec<u64> = times.collect();
        // All the same at first: the leftmost way wins everywhere.
        let leftmost = |node: usize| (node << (stride.ilog2() - node.ilog2())) - stride;
        let winners: Vec<u32> = (0..stride).map(|node| leftmost(node.max(1)) as u32).collect();
        Recency {
            geometry,
            index,
            classes,
            only: (0..CLASSES)
                .find(|&class| classes[class] && classes.iter().filter(|&&counts| counts).count() == 1),
            stride,
            ordered: geometry.ways() > FEW,
            slots: vec![VACANT; stride * geometry.sets()],
            seen: times.repeat(geometry.sets()),
            winners: winners.repeat(geometry.sets()),
        }
    }

    /// Index of the first way of the set of `number`.
    fn first_way(&self, number: u64) -> usize {
        self.index.set_of(self.geometry, number) * self.stride
    }

    /// Puts `held`, whose page number at its size is `number`, in the place of the oldest entry, which is returned.
    pub fn fill(&mut self, store: &PageStore, held: Packed, number: u64) -> Option<Packed> {
        let first = self.first_way(number);
        let way = self.oldest(store, first);
        let slot = Slot { held, low: number as u32 };
        let victim = std::mem::replace(&mut self.slots[first + way], slot).held;
        self.note(first, way, store.now);
        (victim != Packed::EMPTY).then_some(victim)
    }

    /// Drops `held`; says whether it was here.
    pub fn remove(&mut self, held: Packed, number: u64) -> bool {
        let first = self.first_way(number);
        let mut ways = self.slots[first..first + self.stride].iter();
        let Some(way) = ways.position(|slot| slot.held == held) else { return false };
        self.slots[first + way] = VACANT;
        self.note(first, way, 0);
        true
    }

    /// Everything held.
    pub fn held(&self) -> impl Iterator<Item = Packed> + '_ {
        self.slots.iter().map(|slot| slot.held).filter(|&held| held != Packed::EMPTY)
    }

    /// The way, of the set that begins at `first`, whose last reference is longest ago. The times seen may be out of
    /// date: so the way that seems oldest is asked for its true time, until one keeps its place.
    fn oldest(&mut self, store: &PageStore, first: usize) -> usize {
        if !self.ordered {
            let (mut oldest, mut least) = (0, u64::MAX);
            for (way, &slot) in self.slots[first..first + self.geometry.ways()].iter().enumerate() {
                let time = self.last_reference(store, slot);
                if time < least {
                    (oldest, least) = (way, time);
                }
            }
            return oldest;
        }
        loop {
            let way = self.winners[first + 1 % self.stride] as usize;
            let time = self.last_reference(store, self.slots[first + way]);
            if time == self.seen[first + way] {
                return way;
            }
            self.note(first, way, time);
        }
    }

    /// Notes that `way` was last seen used at `time`, and plays its matches again.
    #[inline]
    fn note(&mut self, first: usize, way: usize, time: u64) {
        if !self.ordered {
            return;
        }
        let seen = &mut self.seen[first..first + self.stride];
        let winners = &mut self.winners[first..first + self.stride];
        seen[way] = time;
        let (mut winner, mut least) = (way, time);
        let mut node = self.stride + way;
        while node > 1 {
            let rival = if node < self.stride { winners[node ^ 1] as usize } else { way ^ 1 };
            if seen[rival] < least {
                (winner, least) = (rival, seen[rival]);
            }
            node /= 2;
            winners[node] = winner as u32;
        }
    }

    /// Time of the last reference that touched the entry here; empty ways are oldest.
    #[inline(always)]
    fn last_reference(&self, store: &PageStore, slot: Slot) -> u64 {
        match slot.held.get() {
            _ if slot.held == Packed::EMPTY => 0,
            Held::Page(id) => self.latest(|class| store.page_stamp(id, slot.low, class)),
            Held::Unit(id) => self.latest(|class| store.unit_stamp(id, class)),
            Held::Block(id) => self.latest(|class| store.block_stamp(id, class)),
            Held::Super(id) => self.latest(|class| store.super_stamp(id, class)),
        }
    }

    /// The latest of the times of the classes that count.
    #[inline(always)]
    fn latest(&self, stamp: impl Fn(usize) -> u64) -> u64 {
        if let Some(class) = self.only {
            return stamp(class);
        }
        let mut latest = 0;
        for class in 0..CLASSES {
            if self.classes[class] {
                latest = latest.max(stamp(class));
            }
        }
        latest
    }
}
