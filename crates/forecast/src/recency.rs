//! Stack distances: how many different items were used since an item's last use.

use rustc_hash::FxHashMap;

/// Least room for time stamps.
const ROOM: usize = 1 << 12;

/// The stack distances of a stream of numbers.
///
/// Each item holds the time of its last use; a Fenwick tree (1994) counts the held times after a given one. When times
/// run out, the held ones are renumbered.
#[derive(Clone, Debug)]
pub struct Recency {
    last: FxHashMap<u64, usize>,
    /// Sums over the times, from 1.
    sums: Vec<u32>,
    now: usize,
}

impl Default for Recency {
    fn default() -> Recency {
        Recency { last: FxHashMap::default(), sums: vec![0; ROOM + 1], now: 0 }
    }
}

impl Recency {
    /// Uses an item; returns how many others were used since its last use, none for the first.
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

    /// Held times up to this one.
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

    /// Renumbers the held times from 1, leaving room for at least as many more.
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
        /// Checks against a list, most recent first.
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
