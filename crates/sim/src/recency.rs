//! Least-recently-used sets whose entries' times lie with the pages.
//!
//! The pages carry the time of their last reference, shared by all designs, so an array keeps none of its own that
//! would have to be written on each hit. Small sets are looked through when one of their entries has to leave; for
//! larger ones the times that were seen are kept in order, as lower bounds.

use crate::held::{Held, Packed};
use crate::store::{CLASSES, PageStore};
use crate::tournament::Tournament;
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
    served: Served,
    /// From one set to the next in `slots`.
    stride: usize,
    slots: Vec<Slot>,
    /// The order of sets that are not small.
    order: Option<Tournament>,
}

/// Classes of the references that count.
#[derive(Clone, Debug)]
struct Served {
    classes: [bool; CLASSES],
    /// The only one, if there is one: most arrays need not look for others.
    only: Option<usize>,
}

impl Recency {
    /// An empty array.
    pub fn new(geometry: Geometry, index: SetIndex, classes: [bool; CLASSES]) -> Recency {
        let order = (geometry.ways() > FEW).then(|| Tournament::new(geometry));
        let stride = order.as_ref().map_or(geometry.ways(), Tournament::stride);
        let mut counting = (0..CLASSES).filter(|&class| classes[class]);
        let only = counting.next().filter(|_| counting.next().is_none());
        Recency {
            geometry,
            index,
            served: Served { classes, only },
            stride,
            slots: vec![VACANT; stride * geometry.sets()],
            order,
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

    /// The way, of the set that begins at `first`, whose last reference is longest ago; the first of several.
    fn oldest(&mut self, store: &PageStore, first: usize) -> usize {
        let Recency { served, slots, order: Some(order), .. } = self else {
            return self.oldest_of_few(store, first);
        };
        // The times seen may be out of date: so the way that seems oldest is asked for its true time, until one keeps
        // its place.
        loop {
            let (way, seen) = order.least(first);
            let time = served.last_reference(store, slots[first + way]);
            if time == seen {
                return way;
            }
            order.note(first, way, time);
        }
    }

    fn oldest_of_few(&self, store: &PageStore, first: usize) -> usize {
        let (mut oldest, mut least) = (0, u64::MAX);
        for (way, &slot) in self.slots[first..first + self.stride].iter().enumerate() {
            let time = self.served.last_reference(store, slot);
            if time < least {
                (oldest, least) = (way, time);
            }
        }
        oldest
    }

    /// Notes that `way` was last seen used at `time`.
    fn note(&mut self, first: usize, way: usize, time: u64) {
        if let Some(order) = &mut self.order {
            order.note(first, way, time);
        }
    }
}

impl Served {
    /// Time of the last reference that touched the entry here; empty ways are oldest.
    #[inline(always)]
    fn last_reference(&self, store: &PageStore, slot: Slot) -> u64 {
        match slot.held.page() {
            Some(id) => self.latest(|class| store.page_stamp(id, slot.low, class)),
            None if slot.held == Packed::EMPTY => 0,
            None => self.last_reference_to_larger(store, slot.held.get()),
        }
    }

    fn last_reference_to_larger(&self, store: &PageStore, held: Held) -> u64 {
        match held {
            Held::Page(_) => unreachable!("a page is no larger entry"),
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
