//! A first-level TLB array, as the list of what each set holds.
//!
//! Hits are found from the pages' side (see [`crate::store`]), so this is only asked to make room: the
//! entry least recently referenced by the kinds it serves leaves the set.

use crate::held::{Held, Packed};
use crate::store::{CLASSES, PageStore};
use pagewalk_setassoc::Geometry;
use pagewalk_translate::TlbSpec;

/// An entry.
#[derive(Clone, Copy, Debug)]
struct Slot {
    held: Packed,
    /// The low bits of its page number: enough to look it up in the front.
    low: u32,
}

const VACANT: Slot = Slot { held: Packed::EMPTY, low: 0 };

/// One first-level array of one design.
#[derive(Clone, Debug)]
pub(crate) struct FirstLevel {
    /// Index of the array in its machine.
    pub index: usize,
    geometry: Geometry,
    /// Classes of the references it serves.
    classes: [bool; CLASSES],
    /// Ways of a set in the lists below: a power of two. Those that the array does not have are never oldest.
    stride: usize,
    slots: Vec<Slot>,
    /// A time that the last reference to the entry was not before; 0 for empty ways.
    seen: Vec<u64>,
    /// The ways of each set as a tournament: the inner nodes of a binary tree, from index 1 on, each with the way
    /// below it that was seen least recently.
    winners: Vec<u16>,
}

impl FirstLevel {
    pub fn new(index: usize, spec: &TlbSpec, classes: [bool; CLASSES]) -> FirstLevel {
        let geometry = spec.geometry;
        let stride = geometry.ways().next_power_of_two();
        let times = (0..stride).map(|way| if way < geometry.ways() { 0 } else { u64::MAX });
        let times: Vec<u64> = times.collect();
        // All the same at first: the leftmost way wins everywhere.
        let leftmost = |node: usize| (node << (stride.ilog2() - node.max(1).ilog2())) - stride;
        let winners: Vec<u16> = (0..stride)
            .map(|node| u16::try_from(if node == 0 { 0 } else { leftmost(node) }).expect("a way below 2^16"))
            .collect();
        FirstLevel {
            index,
            geometry,
            classes,
            stride,
            slots: vec![VACANT; stride * geometry.sets()],
            seen: times.repeat(geometry.sets()),
            winners: winners.repeat(geometry.sets()),
        }
    }

    fn served(&self) -> impl Iterator<Item = usize> + use<> {
        let classes = self.classes;
        (0..CLASSES).filter(move |&class| classes[class])
    }

    /// Puts `held`, whose page number at its size is `number`, in the place of the oldest entry.
    pub fn fill(&mut self, store: &mut PageStore, design: usize, held: Held, number: u64) {
        let first = self.geometry.set_of(number) * self.stride;
        let way = self.oldest(store, first);
        let slot = Slot { held: Packed::new(held), low: number as u32 };
        let victim = std::mem::replace(&mut self.slots[first + way], slot).held;
        self.note(first, way, store.now);
        if victim != Packed::EMPTY {
            self.clear_residency(store, design, victim.get());
        }
        for class in self.served() {
            *residency(store, held, class) |= 1 << design;
        }
    }

    /// Drops `held` if it is here.
    pub fn remove(&mut self, store: &mut PageStore, design: usize, held: Held, number: u64) {
        let first = self.geometry.set_of(number) * self.stride;
        let packed = Packed::new(held);
        let mut ways = self.slots[first..first + self.stride].iter();
        if let Some(way) = ways.position(|slot| slot.held == packed) {
            self.slots[first + way] = VACANT;
            self.note(first, way, 0);
            self.clear_residency(store, design, held);
        }
    }

    /// Everything held.
    pub fn held(&self) -> impl Iterator<Item = Held> + '_ {
        self.slots.iter().filter(|slot| slot.held != Packed::EMPTY).map(|slot| slot.held.get())
    }

    /// Says that another design, a copy of this one, holds the same.
    pub fn mark_residency(&self, store: &mut PageStore, design: usize) {
        for held in self.held() {
            for class in self.served() {
                *residency(store, held, class) |= 1 << design;
            }
        }
    }

    /// The way, of the set that begins at `first`, whose last reference is longest ago. The times seen may be out of
    /// date: so the way that seems oldest is asked for its true time, until one keeps its place.
    fn oldest(&mut self, store: &PageStore, first: usize) -> usize {
        loop {
            let way = usize::from(self.winners[first + 1 % self.stride]);
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
        let seen = &mut self.seen[first..first + self.stride];
        let winners = &mut self.winners[first..first + self.stride];
        seen[way] = time;
        let (mut winner, mut least) = (way, time);
        let mut node = self.stride + way;
        while node > 1 {
            let rival = if node < self.stride { usize::from(winners[node ^ 1]) } else { way ^ 1 };
            if seen[rival] < least {
                (winner, least) = (rival, seen[rival]);
            }
            node /= 2;
            winners[node] = winner as u16;
        }
    }

    /// Time of the last reference that touched the entry here; empty ways are oldest.
    fn last_reference(&self, store: &PageStore, slot: Slot) -> u64 {
        if slot.held == Packed::EMPTY {
            return 0;
        }
        let stamp = |class: usize| match slot.held.get() {
            Held::Page(id) => store.page_stamp(id, slot.low, class),
            Held::Unit(id) => store.unit_stamp(id, class),
            Held::Block(id) => store.block_stamp(id, class),
        };
        self.served().map(stamp).max().unwrap_or(0)
    }

    fn clear_residency(&self, store: &mut PageStore, design: usize, held: Held) {
        for class in self.served() {
            *residency(store, held, class) &= !(1 << design);
            match held {
                Held::Page(id) => store.front_remove_page(class, id),
                Held::Unit(id) => store.front_remove_unit(class, id),
                Held::Block(id) => {
                    for at in 0..store.blocks[id as usize].units.len() {
                        let unit = store.blocks[id as usize].units[at];
                        store.front_remove_unit(class, unit);
                    }
                }
            }
        }
    }
}

fn residency(store: &mut PageStore, held: Held, class: usize) -> &mut u64 {
    match held {
        Held::Page(id) => &mut store.pages[id as usize].resident[class],
        Held::Unit(id) => &mut store.units[id as usize].resident[class],
        Held::Block(id) => &mut store.blocks[id as usize].resident[class],
    }
}
