//! Sets replaced by the times of use that pages carry: LRU, and pseudo-LRU by trees of bits.
//!
//! Pages carry the time of their last reference for all designs, so an array needs no write on a hit. An eviction scans
//! a small set; a larger set keeps the times it has seen in order, as lower bounds.
//!
//! A tree's bits need no storage either: each points away from the half of its ways that was used last, so the times of
//! the ways determine all bits. They also determine which of three trees gives the victim.

use crate::classes::CLASSES;
use crate::design::tournament::Tournament;
use crate::store::PageStore;
use crate::store::entry::{EntryId, PackedEntry};
use pagewalk_setassoc::{Geometry, SetIndex, UseOrder};

/// An entry.
#[derive(Clone, Copy, Debug)]
struct Slot {
    held: PackedEntry,
    /// The low bits of its page number, for the lookup in the front.
    low: u32,
}

const VACANT: Slot = Slot { held: PackedEntry::EMPTY, low: 0 };

/// Sets of up to this many ways are scanned: an order would cost more than it saves.
const FEW: usize = 8;

/// Trees of more ways keep their bits: they have too many times to scan at each miss.
pub(crate) const TREE_WAYS_MAX: usize = 64;

/// The entries of one array, replaced by their pages' times of use.
#[derive(Clone, Debug)]
pub(crate) struct Recency {
    geometry: Geometry,
    index: SetIndex,
    served: ServedClasses,
    /// Slots per set.
    stride: usize,
    slots: Vec<Slot>,
    victim: Victim,
}

/// How a full set chooses its victim.
#[derive(Clone, Debug)]
enum Victim {
    /// The oldest, by a scan.
    OldestOfFew,
    /// The oldest, by a tournament.
    Oldest(Tournament),
    /// The way that a tree of bits points to.
    PointedTo,
    /// The way that one of three trees points to: the tree after the one used last (`next`), or the one used longest
    /// ago.
    PointedToOfThree { next: bool },
}

/// Trees in a set of three; their ways follow each other.
const TREES: usize = 3;

/// Classes of references that update times.
#[derive(Clone, Debug)]
struct ServedClasses {
    classes: [bool; CLASSES],
    /// The only class, if there is one, as in most arrays.
    only: Option<usize>,
}

impl Recency {
    /// An empty array with victims by `how`. Trees have at most [`TREE_WAYS_MAX`] ways, a number that the policy
    /// serves.
    pub fn new(geometry: Geometry, index: SetIndex, classes: [bool; CLASSES], how: UseOrder) -> Recency {
        let victim = match how {
            UseOrder::Oldest if geometry.ways() <= FEW => Victim::OldestOfFew,
            UseOrder::Oldest => Victim::Oldest(Tournament::new(geometry)),
            UseOrder::Tree => Victim::PointedTo,
            UseOrder::NextOfThreeTrees => Victim::PointedToOfThree { next: true },
            UseOrder::OldestOfThreeTrees => Victim::PointedToOfThree { next: false },
        };
        let stride = if let Victim::Oldest(order) = &victim { order.stride() } else { geometry.ways() };
        let mut counting = (0..CLASSES).filter(|&class| classes[class]);
        let only = counting.next().filter(|_| counting.next().is_none());
        Recency {
            geometry,
            index,
            served: ServedClasses { classes, only },
            stride,
            slots: vec![VACANT; stride * geometry.sets()],
            victim,
        }
    }

    /// Index of the first way of the set of `number`.
    fn first_way(&self, number: u64) -> usize {
        self.index.set_of(self.geometry, number) * self.stride
    }

    /// Puts `held`, page `number` of its size, in place of the victim, which is returned.
    pub fn fill(&mut self, store: &PageStore, held: PackedEntry, number: u64) -> Option<PackedEntry> {
        let first = self.first_way(number);
        let way = self.victim_way(store, first);
        let slot = Slot { held, low: number as u32 };
        let victim = std::mem::replace(&mut self.slots[first + way], slot).held;
        self.note(first, way, store.now);
        (victim != PackedEntry::EMPTY).then_some(victim)
    }

    /// Drops `held`; false if it is not here.
    pub fn remove(&mut self, held: PackedEntry, number: u64) -> bool {
        let first = self.first_way(number);
        let mut ways = self.slots[first..first + self.stride].iter();
        let Some(way) = ways.position(|slot| slot.held == held) else { return false };
        self.slots[first + way] = VACANT;
        self.note(first, way, 0);
        true
    }

    /// All entries.
    pub fn held(&self) -> impl Iterator<Item = PackedEntry> + '_ {
        self.slots.iter().map(|slot| slot.held).filter(|&held| held != PackedEntry::EMPTY)
    }

    /// The victim's way in the set that begins at `first`; an empty way goes first.
    fn victim_way(&mut self, store: &PageStore, first: usize) -> usize {
        let Recency { served, slots, victim, .. } = self;
        match victim {
            Victim::OldestOfFew => self.oldest_of_few(store, first),
            Victim::PointedTo => self.pointed_to(store, first),
            &mut Victim::PointedToOfThree { next } => self.pointed_to_of_three(store, first, next),
            // Recorded times may be stale: update the oldest way's time until it stays the oldest.
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
        // Loops over common numbers of ways are unrolled.
        match self.stride {
            4 => self.pointed_to_of::<4>(store, first),
            8 => self.pointed_to_of::<8>(store, first),
            _ => self.pointed_to_of::<TREE_WAYS_MAX>(store, first),
        }
    }

    /// [`Recency::pointed_to`] for at most `MOST` ways.
    #[inline(always)]
    fn pointed_to_of<const MOST: usize>(&self, store: &PageStore, first: usize) -> usize {
        let mut trees = [Subtree::default(); MOST];
        match self.leaves(store, first, &mut trees) {
            Ok(leaves) => joined(leaves).victim,
            Err(empty) => empty,
        }
    }

    /// [`Recency::pointed_to`] for three trees.
    fn pointed_to_of_three(&self, store: &PageStore, first: usize, next: bool) -> usize {
        let mut trees = [Subtree::default(); TREE_WAYS_MAX];
        let leaves = match self.leaves(store, first, &mut trees) {
            Ok(leaves) => leaves,
            Err(empty) => return empty,
        };
        let mut trees = [Subtree::default(); TREES];
        let ways = leaves.len() / TREES;
        for (tree, leaves) in trees.iter_mut().zip(leaves.chunks_mut(ways)) {
            *tree = joined(leaves);
        }
        let tree = if next {
            (0..TREES).max_by_key(|&tree| trees[tree].latest).map_or(0, |tree| (tree + 1) % TREES)
        } else {
            (0..TREES).min_by_key(|&tree| trees[tree].latest).unwrap_or(0)
        };
        trees[tree].victim
    }

    /// The ways of the set that begins at `first`, as leaves of trees; the first empty way, if there is one.
    #[inline(always)]
    fn leaves<'a>(
        &self,
        store: &PageStore,
        first: usize,
        leaves: &'a mut [Subtree],
    ) -> Result<&'a mut [Subtree], usize> {
        let slots = &self.slots[first..first + self.stride];
        for (victim, (leaf, &slot)) in leaves.iter_mut().zip(slots).enumerate() {
            if slot.held == PackedEntry::EMPTY {
                return Err(victim);
            }
            *leaf = Subtree { latest: self.served.last_reference(store, slot), victim };
        }
        Ok(&mut leaves[..slots.len()])
    }

    /// Records `time` as the last known use of `way`.
    fn note(&mut self, first: usize, way: usize, time: u64) {
        if let Victim::Oldest(order) = &mut self.victim {
            order.note(first, way, time);
        }
    }
}

/// A part of a tree.
#[derive(Clone, Copy, Default)]
struct Subtree {
    /// The time of the last use of its ways.
    latest: u64,
    /// The way that its bits point to.
    victim: usize,
}

/// The tree of these leaves, a power of two. Both halves of each node are evaluated: which of them was used last is
/// hard to predict for a branch.
#[inline(always)]
fn joined(trees: &mut [Subtree]) -> Subtree {
    let mut count = trees.len();
    while count > 1 {
        count /= 2;
        for node in 0..count {
            let (lower, upper) = (trees[2 * node], trees[2 * node + 1]);
            let to_upper = upper.latest < lower.latest;
            trees[node] = Subtree {
                latest: upper.latest.max(lower.latest),
                victim: if to_upper { upper.victim } else { lower.victim },
            };
        }
    }
    trees[0]
}

impl ServedClasses {
    /// Time of the last reference that touched the entry here; empty ways are oldest.
    #[inline(always)]
    fn last_reference(&self, store: &PageStore, slot: Slot) -> u64 {
        match slot.held.page() {
            Some(id) => self.latest(|class| store.page_stamp(id, slot.low, class)),
            None if slot.held == PackedEntry::EMPTY => 0,
            None => self.last_reference_to_larger(store, slot.held.get()),
        }
    }

    fn last_reference_to_larger(&self, store: &PageStore, held: EntryId) -> u64 {
        match held {
            EntryId::Page(_) => unreachable!("pages are handled above"),
            EntryId::Unit(id) => self.latest(|class| store.unit_stamp(id, class)),
            EntryId::Block(id) => self.latest(|class| store.block_stamp(id, class)),
            EntryId::Super(id) => self.latest(|class| store.super_stamp(id, class)),
        }
    }

    /// The latest time of the served classes.
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
