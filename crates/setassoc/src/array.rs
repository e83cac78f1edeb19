//! The array: which keys each set holds.
//!
//! Ways are filled lowest empty one first, whatever the policy, which is asked for a victim only where a set
//! is full. Removing a key empties its way and moves nothing.
//!
//! Cost: a hit is the search for its key and what the policy notes of it. Sets of up to [`SCANNED_WAYS_MAX`]
//! ways are searched by comparing every key, larger ones through a [`Directory`]. No operation allocates.

use crate::directory::Directory;
use crate::{Geometry, SetIndex};

/// Marks an empty way; never a key.
pub(crate) const EMPTY: u64 = u64::MAX;

/// Keys that are compared together. Sets are padded to a multiple with ways that stay empty.
const GROUP: usize = 4;

/// The largest set that is searched key by key. A directory would find a key among eight a little faster, and
/// make a miss cost twice as much.
const SCANNED_WAYS_MAX: usize = 2 * GROUP;

/// Chooses the key that leaves a full set. Sets and ways count from 0.
///
/// Which hits change later outcomes says [`crate::NamedPolicy::RELEVANT_HITS`]. Of all policies but those that heed
/// each hit ([`crate::RelevantHits::Each`]), a hit of the key that was touched or filled last in its set changes none.
/// So whoever remembers the last page of each class of references may drop its repetitions, wherever references of one
/// set are of one class (with [`SetIndex::Modulo`], the low bits of the number or fewer of them), and stays exact.
pub trait ReplacementPolicy {
    /// A lookup or a repeated fill found its key in this way.
    fn hit(&mut self, set: usize, way: usize);
    /// The way of this full set that is to be replaced. A call of `fill` with that way follows.
    fn victim(&mut self, set: usize) -> usize;
    /// A new key was put into this way, which was empty or just named by `victim`.
    fn fill(&mut self, set: usize, way: usize);
    /// This way lost its key and is empty.
    fn remove(&mut self, set: usize, way: usize);
}

/// A set-associative array of `u64` keys with the replacement policy `P`.
///
/// A key must not be `u64::MAX`, and always comes with a number of the same set.
#[derive(Clone, Debug)]
pub struct Array<P> {
    geometry: Geometry,
    index: SetIndex,
    /// Ways of a set in `keys`, padding included.
    stride: usize,
    keys: Vec<u64>,
    /// Keys that each set holds.
    filled: Vec<u32>,
    directory: Option<Directory>,
    policy: P,
}

impl<P: ReplacementPolicy> Array<P> {
    /// An empty array. The policy is new and of the same shape.
    pub(crate) fn with_policy(geometry: Geometry, policy: P) -> Array<P> {
        let stride = geometry.ways().next_multiple_of(GROUP);
        let directory = (geometry.ways() > SCANNED_WAYS_MAX).then(|| Directory::new(geometry));
        Array {
            geometry,
            index: SetIndex::Modulo,
            stride,
            keys: vec![EMPTY; geometry.sets() * stride],
            filled: vec![0; geometry.sets()],
            directory,
            policy,
        }
    }

    /// The same array with its sets chosen by `index` instead of the low bits.
    ///
    /// # Panics
    /// If it holds keys: they would be in the wrong sets.
    pub fn indexed_by(self, index: SetIndex) -> Array<P> {
        assert!(self.filled.iter().all(|&filled| filled == 0), "only an empty array can change its index");
        Array { index, ..self }
    }

    /// The array's shape.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// How the set is chosen.
    pub fn index(&self) -> SetIndex {
        self.index
    }

    #[inline(always)]
    fn way_of(&self, set: usize, key: u64) -> Option<usize> {
        debug_assert_ne!(key, EMPTY, "marks an empty way");
        let keys = &self.keys[set * self.stride..][..self.stride];
        if let Some(directory) = &self.directory {
            return directory.find(set, key, keys);
        }
        // No branch depends on which way it is: that is hard to predict.
        let lower = equal(&keys[..GROUP], key);
        let upper = if keys.len() > GROUP { equal(&keys[GROUP..2 * GROUP], key) << GROUP } else { 0 };
        (lower | upper != 0).then(|| (lower | upper).trailing_zeros() as usize)
    }

    /// Whether the set of `number` holds `key`; the policy does not hear of it.
    #[inline]
    pub fn contains(&self, number: u64, key: u64) -> bool {
        self.way_of(self.index.set_of(self.geometry, number), key).is_some()
    }

    /// Looks `key` up in the set of `number`; the policy notes a hit.
    #[inline]
    pub fn touch(&mut self, number: u64, key: u64) -> bool {
        let set = self.index.set_of(self.geometry, number);
        let Some(way) = self.way_of(set, key) else { return false };
        self.policy.hit(set, way);
        true
    }

    /// Puts `key` into the set of `number`: into its lowest empty way, or in the place of the key that the
    /// policy chooses, which is returned. A key already held is touched.
    #[inline]
    pub fn fill(&mut self, number: u64, key: u64) -> Option<u64> {
        if self.touch(number, key) { None } else { self.insert(number, key) }
    }

    /// [`Array::fill`] of a key that is not held, as after a `touch` that missed: saves the search.
    pub fn insert(&mut self, number: u64, key: u64) -> Option<u64> {
        let set = self.index.set_of(self.geometry, number);
        debug_assert!(self.way_of(set, key).is_none(), "{key:#x} is held already");
        let keys = &mut self.keys[set * self.stride..][..self.geometry.ways()];
        let full = self.filled[set] as usize == keys.len();
        let way = if full {
            self.policy.victim(set)
        } else {
            self.filled[set] += 1;
            keys.iter().position(|&held| held == EMPTY).expect("not full")
        };
        let victim = full.then_some(keys[way]);
        if let Some(directory) = &mut self.directory {
            if let Some(victim) = victim {
                directory.remove(set, victim, keys);
            }
            directory.insert(set, key, way);
        }
        keys[way] = key;
        self.policy.fill(set, way);
        victim
    }

    /// Drops `key` from the set of `number`; says whether it was there.
    pub fn remove(&mut self, number: u64, key: u64) -> bool {
        let set = self.index.set_of(self.geometry, number);
        let Some(way) = self.way_of(set, key) else { return false };
        self.empty(set, way);
        true
    }

    /// Drops all keys for which `gone` holds, set by set from the lowest way on.
    pub fn remove_where(&mut self, mut gone: impl FnMut(u64) -> bool) {
        for set in 0..self.geometry.sets() {
            for way in 0..self.geometry.ways() {
                let key = self.keys[set * self.stride + way];
                if key != EMPTY && gone(key) {
                    self.empty(set, way);
                }
            }
        }
    }

    fn empty(&mut self, set: usize, way: usize) {
        let keys = &mut self.keys[set * self.stride..][..self.stride];
        if let Some(directory) = &mut self.directory {
            directory.remove(set, keys[way], keys);
        }
        keys[way] = EMPTY;
        self.filled[set] -= 1;
        self.policy.remove(set, way);
    }

    /// The keys held, in no particular order.
    pub fn keys(&self) -> impl Iterator<Item = u64> + '_ {
        self.keys.iter().copied().filter(|&key| key != EMPTY)
    }
}

/// Bit i: the i-th of the keys is `key`.
#[inline(always)]
fn equal(keys: &[u64], key: u64) -> u32 {
    keys.iter().rev().fold(0, |equal, &held| equal << 1 | u32::from(held == key))
}
