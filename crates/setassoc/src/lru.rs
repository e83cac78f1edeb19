//! A set-associative array with true least-recently-used replacement.
//!
//! Keys and recency stamps lie in two flat vectors. A hit writes one stamp; only a fill into a full set
//! looks for the oldest stamp. Cost: hit, one scan of the set's keys; fill, one scan of keys or stamps.

use crate::Geometry;

/// Marks an empty way; never a key.
const EMPTY: u64 = u64::MAX;

/// An LRU array of `u64` keys.
#[derive(Clone, Debug)]
pub struct LruArray {
    geometry: Geometry,
    keys: Vec<u64>,
    stamps: Vec<u64>,
    clock: u64,
}

impl LruArray {
    /// An empty array.
    pub fn new(geometry: Geometry) -> LruArray {
        let entries = geometry.entries();
        LruArray { geometry, keys: vec![EMPTY; entries], stamps: vec![0; entries], clock: 0 }
    }

    /// The array's shape.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn way_of(&self, set: usize, key: u64) -> Option<usize> {
        let first = set * self.geometry.ways();
        let keys = &self.keys[first..first + self.geometry.ways()];
        keys.iter().position(|&k| k == key).map(|way| first + way)
    }

    /// Looks `key` up in the set of `number`; a hit becomes most recent.
    #[inline]
    pub fn touch(&mut self, number: u64, key: u64) -> bool {
        debug_assert_ne!(key, EMPTY);
        let Some(slot) = self.way_of(self.geometry.set_of(number), key) else { return false };
        self.clock += 1;
        self.stamps[slot] = self.clock;
        true
    }

    /// Makes `key` the most recent of the set of `number`, replacing the least recent one where the
    /// set is full. Returns the key that had to leave.
    pub fn fill(&mut self, number: u64, key: u64) -> Option<u64> {
        debug_assert_ne!(key, EMPTY);
        self.clock += 1;
        let set = self.geometry.set_of(number);
        if let Some(slot) = self.way_of(set, key) {
            self.stamps[slot] = self.clock;
            return None;
        }
        let first = set * self.geometry.ways();
        let ways = first..first + self.geometry.ways();
        // Empty ways carry stamp 0, older than any key, so they are taken first.
        let slot = ways.min_by_key(|&slot| self.stamps[slot]).expect("at least one way");
        let victim = std::mem::replace(&mut self.keys[slot], key);
        self.stamps[slot] = self.clock;
        (victim != EMPTY).then_some(victim)
    }

    /// Drops `key` from the set of `number`; says whether it was there.
    pub fn remove(&mut self, number: u64, key: u64) -> bool {
        let Some(slot) = self.way_of(self.geometry.set_of(number), key) else { return false };
        self.keys[slot] = EMPTY;
        self.stamps[slot] = 0;
        true
    }

    /// Drops all keys for which `gone` holds.
    pub fn remove_where(&mut self, mut gone: impl FnMut(u64) -> bool) {
        for (key, stamp) in self.keys.iter_mut().zip(&mut self.stamps) {
            if *key != EMPTY && gone(*key) {
                *key = EMPTY;
                *stamp = 0;
            }
        }
    }

    /// The keys held, in no particular order.
    pub fn keys(&self) -> impl Iterator<Item = u64> + '_ {
        self.keys.iter().copied().filter(|&key| key != EMPTY)
    }
}
