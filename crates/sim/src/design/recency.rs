//! Sets whose entries' times lie with the pages: least recently used, and pseudo-LRU by trees of bits.
//!
//! The pages carry the time of their last reference, shared by all designs, so an array keeps none of its own that
//! would have to be written on each hit. Small sets are looked through when one of their entries has to leave; for
//! larger ones the times that were seen are kept in order, as lower bounds.
//!
//! A tree's bits need not be kept either. Each points away from the half of its ways that was used last, whatever
//! was used before: so the ways' last times say what all bits are. Which of three trees gives the victim, they say too.

use crate::classes::CLASSES;
use crate::design::tournament::Tournament;
use crate::store::PageStore;
use crate::store::entry::{Held, Packed};
use pagewalk_setassoc::{Geometry, LastUse, SetIndex};

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

/// Trees of more ways are kept as bits: their times are too many to look through at each miss.
pub(crate) const TREE_WAYS_MAX: usize = 64;

/// The entries of one array, replaced by the times of their pages.
#[derive(Clone, Debug)]
pub(crate) struct Recency {
    geometry: Geometry,
    index: SetIndex,
    served: Served,
    /// From one set to the next in `slots`.
    stride: usize,
    slots: Vec<Slot>,
    victim: Victim,
}

/// Which entry of a full set is replaced.
#[derive(Clone, Debug)]
enum Victim {
    /// The oldest of few.
    OldestOfFew,
    /// The oldest, by the order that is kept.
    Oldest(Tournament),
    /// The one that a tree of bits points to.
    PointedTo,
    /// The one that a tree of three points to: that behind the tree used last, or that not used for longest.
    PointedToOfThree { next: bool },
}

/// The ways of three trees, one behind the other.
const TREES: usize = 3;

/// Classes of the references that count.
#[derive(Clone, Debug)]
struct Served {
    classes: [bool; CLASSES],
    /// The only one, if there is one: most arrays need not look for others.
    only: Option<usize>,
}

impl Recency {
    /// An empty array, in which `how` says what is replaced. Trees have at most [`TREE_WAYS_MAX`] ways in all, as many
    /// as the policy serves.
    pub fn new(geometry: Geometry, index: SetIndex, classes: [bool; CLASSES], how: LastUse) -> Recency {
        let victim = match how {
            LastUse::Oldest if geometry.ways() <= FEW => Victim::OldestOfFew,
            LastUse::Oldest => Victim::Oldest(Tournament::new(geometry)),
            LastUse::Tree => Victim::PointedTo,
            LastUse::NextOfThreeTrees => Victim::PointedToOfThree { next: true },
            LastUse::OldestOfThreeTrees => Victim::PointedToOfThree { next: false },
        };
        let stride = if let Victim::Oldest(order) = &victim { order.stride() } else { geometry.ways() };
        let mut counting = (0..CLASSES).filter(|&class| classes[class]);
        let only = counting.next().filter(|_| counting.next().is_none());
        Recency {
            geometry,
            index,
            served: Served { classes, only },
            stride,
            slots: vec![VACANT; stride * geometry.sets()],
            victim,
        }
    }

    /// Index of the first way of the set of `number`.
    fn first_way(&self, number: u64) -> usize {
        self.index.set_of(self.geometry, number) * self.stride
    }

    /// Puts `held`, whose page number at its size is `number`, in the place of the entry that is replaced and returned.
    pub fn fill(&mut self, store: &PageStore, held: Packed, number: u64) -> Option<Packed> {
        let first = self.first_way(number);
        let way = self.victim_way(store, first);
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

    /// The way, of the set that begins at `first`, whose entry is replaced; the first that is empty, if one is.
    fn victim_way(&mut self, store: &PageStore, first: usize) -> usize {
        let Recency { served, slots, victim, .. } = self;
        match victim {
            Victim::OldestOfFew => self.oldest_of_few(store, first),
            Victim::PointedTo => self.pointed_to(store, first),
            &mut Victim::PointedToOfThree { next } => self.pointed_to_of_three(store, first, next),
            // The times seen may be out of date: so the way that seems oldest is asked for its true time, until one
            // keeps its place.
            Victim::Oldest(order) => loop {
                let (way, seen) = order.least(first);
                let time = served.last_reference(store, slots[first + way]);
                if time == seen {
                    return way;
                }
                order.note(first, way, time);
            },
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

    fn pointed_to(&self, store: &PageStore, first: usize) -> usize {
        let mut times = [0; TREE_WAYS_MAX];
        match self.times(store, first, &mut times) {
            Ok(times) => in_tree(times),
            Err(empty) => empty,
        }
    }

    /// [`Recency::pointed_to`] where there are three trees.
    fn pointed_to_of_three(&self, store: &PageStore, first: usize, next: bool) -> usize {
        let mut times = [0; TREE_WAYS_MAX];
        let times = match self.times(store, first, &mut times) {
            Ok(times) => times,
            Err(empty) => return empty,
        };
        let leaves = times.len() / TREES;
        let mut latest = [0; TREES];
        for (latest, tree) in latest.iter_mut().zip(times.chunks(leaves)) {
            *latest = tree.iter().copied().max().unwrap_or(0);
        }
        let tree = if next {
            (0..TREES).max_by_key(|&tree| latest[tree]).map_or(0, |tree| (tree + 1) % TREES)
        } else {
            (0..TREES).min_by_key(|&tree| latest[tree]).unwrap_or(0)
        };
        tree * leaves + in_tree(&times[tree * leaves..][..leaves])
    }

    /// When each way of the set that begins at `first` was last used; the first empty way, if there is one.
    #[inline(always)]
    fn times<'a>(
        &self,
        store: &PageStore,
        first: usize,
        times: &'a mut [u64; TREE_WAYS_MAX],
    ) -> Result<&'a [u64], usize> {
        let slots = &self.slots[first..first + self.stride];
        for (way, (time, &slot)) in times.iter_mut().zip(slots).enumerate() {
            if slot.held == Packed::EMPTY {
                return Err(way);
            }
            *time = self.served.last_reference(store, slot);
        }
        Ok(&times[..slots.len()])
    }

    /// Notes that `way` was last seen used at `time`.
    fn note(&mut self, first: usize, way: usize, time: u64) {
        if let Victim::Oldest(order) = &mut self.victim {
            order.note(first, way, time);
        }
    }
}

/// The way to which the bits lead of a tree whose ways were last used at these times.
#[inline(always)]
fn in_tree(mut times: &[u64]) -> usize {
    let mut way = 0;
    while times.len() > 1 {
        let (lower, upper) = times.split_at(times.len() / 2);
        if upper.iter().max() < lower.iter().max() {
            (way, times) = (way + lower.len(), upper);
        } else {
            times = lower;
        }
    }
    way
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
