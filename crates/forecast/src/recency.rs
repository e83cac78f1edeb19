//! How many different things were used since a thing was used last.

use rustc_hash::FxHashMap;

/// Least room for moments.
const ROOM: usize = 1 << 12;

/// The stack distances of a stream of numbers.
///
/// Each thing holds the moment at which it was used last; a tree of sums (Fenwick 1994) counts the moments held after
/// a given one. When the moments are used up, those that are held are numbered anew.
#[derive(Clone, Debug)]
pub struct Recency {
    last: FxHashMap<u64, usize>,
    /// Sums over the moments, from 1.
    sums: Vec<u32>,
    now: usize,
}

impl Default for Recency {
    fn default() -> Recency {
        Recency { last: FxHashMap::default(), sums: vec![0; ROOM + 1], now: 0 }
    }
}

impl Recency {
    /// Uses a thing; how many others were used since its last use, or none if this is its first.
    pub fn refer(&mut self, thing: u64) -> Option<u64> {
        if self.now + 1 == self.sums.len() {
            self.renumber();
        }
        self.now += 1;
        let before = self.last.insert(thing, self.now);
        let distance = before.map(|before| {
            let distance = self.last.len() as u64 - u64::from(self.up_to(before));
            self.add(before, -1);
            distance
        });
        self.add(self.now, 1);
        distance
    }

    /// Moments held up to this one.
    fn up_to(&self, mut moment: usize) -> u32 {
        let mut sum = 0;
        while moment > 0 {
            sum += self.sums[moment];
            moment &= moment - 1;
        }
        sum
    }

    fn add(&mut self, mut moment: usize, change: i32) {
        while moment < self.sums.len() {
            self.sums[moment] = self.sums[moment].wrapping_add_signed(change);
            moment += moment & moment.wrapping_neg();
        }
    }

    /// Gives the moments that are held the numbers from 1, and room for as many more at least.
    fn renumber(&mut self) {
        let mut held: Vec<(usize, u64)> = self.last.iter().map(|(&thing, &moment)| (moment, thing)).collect();
        held.sort_unstable();
        self.sums.clear();
        self.sums.resize((4 * held.len()).max(ROOM) + 1, 0);
        self.now = 0;
        for (_, thing) in held {
            self.now += 1;
            self.last.insert(thing, self.now);
            self.add(self.now, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a list, most recent first.
        #[test]
        fn distances_are_those_of_a_list(things in prop::collection::vec(0u64..300, 1..9000)) {
            let mut recency = Recency::default();
            let mut list: Vec<u64> = Vec::new();
            for thing in things {
                let place = list.iter().position(|&other| other == thing);
                prop_assert_eq!(recency.refer(thing), place.map(|place| place as u64));
                place.map(|place| list.remove(place));
                list.insert(0, thing);
            }
        }
    }
}
