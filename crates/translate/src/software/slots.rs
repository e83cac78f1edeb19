//! The slots of a software-managed TLB, in two parts with a movable border.
//!
//! Fills take empty slots of a set first, the lowest first; then the part's replacement chooses. When the border moves,
//! entries stay in place: only later fills follow it.

use pagewalk_setassoc::Replacement;
use pagewalk_units::Draws;
use rustc_hash::FxHashMap;
use std::ops::Range;

/// No key of an entry.
const EMPTY: u64 = u64::MAX;

/// A part: below or above the border.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Lower,
    Upper,
}

#[derive(Clone, Debug)]
enum Order {
    Fifo,
    Random(Draws),
}

impl Order {
    fn new(replacement: Replacement) -> Order {
        match replacement {
            Replacement::Random { seed } => Order::Random(Draws::new(seed)),
            Replacement::Fifo => Order::Fifo,
            other => unreachable!("{} is refused by MachineSpec", other.name()),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Slots {
    keys: Vec<u64>,
    /// The value of `filled` when each slot was filled.
    since: Vec<u64>,
    filled: u64,
    /// The slot of each key.
    places: FxHashMap<u64, u32>,
    border: usize,
    /// Slots per set; none if the parts are fully associative.
    ways: Option<usize>,
    /// Empty slots of each part.
    empty: [usize; 2],
    order: [Order; 2],
}

impl Slots {
    /// Empty slots, with the replacement of the lower and the upper part.
    pub fn new(slots: usize, lower: usize, ways: Option<usize>, replacement: [Replacement; 2]) -> Slots {
        Slots {
            keys: vec![EMPTY; slots],
            since: vec![0; slots],
            filled: 0,
            places: FxHashMap::default(),
            border: lower,
            ways,
            empty: [lower, slots - lower],
            order: replacement.map(Order::new),
        }
    }

    pub fn border(&self) -> usize {
        self.border
    }

    /// Moves the border.
    pub fn set_border(&mut self, border: usize) {
        self.border = border;
        let empty = |keys: &[u64]| keys.iter().filter(|&&key| key == EMPTY).count();
        let (lower, upper) = self.keys.split_at(border);
        self.empty = [empty(lower), empty(upper)];
    }

    #[inline]
    pub fn contains(&self, key: u64) -> bool {
        self.places.contains_key(&key)
    }

    /// The held keys, slot by slot.
    pub fn keys(&self) -> impl Iterator<Item = u64> + '_ {
        self.keys.iter().copied().filter(|&key| key != EMPTY)
    }

    /// Inserts a missing key into a part; `number` selects the set. Returns the victim.
    pub fn insert(&mut self, part: Part, number: u64, key: u64) -> Option<u64> {
        let set = self.set(part, number);
        let is_empty = |&slot: &usize| self.keys[slot] == EMPTY;
        let free = if self.empty[part as usize] > 0 { set.clone().find(is_empty) } else { None };
        let slot = free.unwrap_or_else(|| self.victim(part, set));
        let gone = std::mem::replace(&mut self.keys[slot], key);
        self.filled += 1;
        self.since[slot] = self.filled;
        let before = self.places.insert(key, slot as u32);
        debug_assert_eq!(before, None, "{key:#x} was held already");
        if gone == EMPTY {
            self.empty[part as usize] -= 1;
            return None;
        }
        self.places.remove(&gone);
        Some(gone)
    }

    /// Drops a key; false if it is not held.
    pub fn remove(&mut self, key: u64) -> bool {
        let Some(slot) = self.places.remove(&key) else { return false };
        self.keys[slot as usize] = EMPTY;
        let part = if (slot as usize) < self.border { Part::Lower } else { Part::Upper };
        self.empty[part as usize] += 1;
        true
    }

    fn set(&self, part: Part, number: u64) -> Range<usize> {
        let range = match part {
            Part::Lower => 0..self.border,
            Part::Upper => self.border..self.keys.len(),
        };
        match self.ways {
            None => range,
            Some(ways) => {
                let sets = (range.len() / ways) as u64;
                let start = range.start + (number % sets) as usize * ways;
                start..start + ways
            }
        }
    }

    fn victim(&mut self, part: Part, set: Range<usize>) -> usize {
        match &mut self.order[part as usize] {
            Order::Random(draws) => set.start + draws.below(set.len() as u64) as usize,
            Order::Fifo => set.min_by_key(|&slot| self.since[slot]).expect("no set is empty"),
        }
    }
}
