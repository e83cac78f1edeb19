//! The array: sets of keys.
//!
//! Fills take the lowest empty way first; the policy chooses a victim only in a full set. Removing a key empties its
//! way and moves nothing.
//!
//! Cost: a hit is a search for its key and the policy's update. Sets of up to [`SCANNED_WAYS_MAX`] ways are searched by
//! comparing every key, larger ones through a [`Directory`]. No operation allocates.

use crate::directory::Directory;
use crate::{Geometry, SetIndex};

/// Marks an empty way; never a key.
pub(crate) const EMPTY: u64 = u64::MAX;

/// Keys compared together. Sets are padded to a multiple with ways that stay empty.
const GROUP: usize = 4;

/// The largest set searched key by key. For eight ways a directory would find a key slightly faster, but double the
/// cost of a miss.
const SCANNED_WAYS_MAX: usize = 2 * GROUP;

/// Chooses the victim of a full set. Sets and ways count from 0.
///
/// [`crate::NamedPolicy::RELEVANT_HITS`] says which hits change later outcomes. Except for policies that need each hit
/// ([`crate::RelevantHits::Each`]), a hit of the last touched or filled key of a set changes nothing. So a simulator
/// that remembers the last page of each class of references may drop its repetitions and stay exact, if all references
/// of a set belong to one class (with [`SetIndex::Modulo`], classes by low bits of the number).
pub trait ReplacementPolicy {
    /// A lookup or a repeated fill found its key in this way.
    fn hit(&mut self, set: usize, way: usize);
    /// The way of this full set to replace. A call of `fill` with that way follows.
    fn victim(&mut self, set: usize) -> usize;
    /// A new key fills this way, which was empty or just chosen by `victim`.
    fn fill(&mut self, set: usize, way: usize);
    /// This way lost its key and is empty.
    fn remove(&mut self, set: usize, way: usize);
}

/// A set-associative array of `u64` keys with the replacement policy `P`.
///
/// A key must not be `u64::MAX`, and must always come with a number of the same set.
#[derive(Clone, Debug)]
pub struct Array<P> {
    geometry: Geometry,
    index: SetIndex,
    /// Ways of a set in `keys`, including padding.
    stride: usize,
    keys: Vec<u64>,
    /// The number of keys in each set.
    filled: Vec<u32>,
    directory: Option<Directory>,
    policy: P,
}

impl<P: ReplacementPolicy> Array<P> {
    /// An empty array. `policy` must be new and of the same shape.
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

    /// Makes `index` choose the sets instead of the low bits.
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

    /// How numbers choose sets.
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
        // No branch on the way, which is hard to predict.
        let lower = equal(&keys[..GROUP], key);
        let upper = if keys.len() > GROUP { equal(&keys[GROUP..2 * GROUP], key) << GROUP } else { 0 };
        (lower | upper != 0).then(|| (lower | upper).trailing_zeros() as usize)
    }

    /// Whether the set of `number` holds `key`; no hit for the policy.
    #[inline]
    pub fn contains(&self, number: u64, key: u64) -> bool {
        self.way_of(self.index.set_of(self.geometry, number), key).is_some()
    }

    /// The slot of `key` in the set of `number`, if it is there: its set times the ways, plus its way. A key keeps its
    /// slot until it leaves. No hit for the policy.
    #[inline]
    pub fn slot_of(&self, number: u64, key: u64) -> Option<usize> {
        let set = self.index.set_of(self.geometry, number);
        self.way_of(set, key).map(|way| self.slot(set, way))
    }

    #[inline(always)]
    fn slot(&self, set: usize, way: usize) -> usize {
        set * self.geometry.ways() + way
    }

    /// Looks up `key` in the set of `number`; the policy records a hit.
    #[inline]
    pub fn touch(&mut self, number: u64, key: u64) -> bool {
        self.touch_slot(number, key).is_some()
    }

    /// [`Array::touch`]; returns the [slot](Array::slot_of) that hit.
    #[inline]
    pub fn touch_slot(&mut self, number: u64, key: u64) -> Option<usize> {
        let set = self.index.set_of(self.geometry, number);
        let way = self.way_of(set, key)?;
        self.policy.hit(set, way);
        Some(self.slot(set, way))
    }

    /// Puts `key` into the set of `number`: into its lowest empty way, or in place of the policy's victim, which is
    /// returned. A key already held is touched.
    #[inline]
    pub fn fill(&mut self, number: u64, key: u64) -> Option<u64> {
        if self.touch(number, key) { None } else { self.insert(number, key) }
    }

    /// [`Array::fill`] for a missing key, for example after a miss of `touch`: saves the search.
    pub fn insert(&mut self, number: u64, key: u64) -> Option<u64> {
        self.insert_slot(number, key).1
    }

    /// [`Array::insert`]; returns also the [slot](Array::slot_of), which was the victim's.
    #[inline]
    pub fn insert_slot(&mut self, number: u64, key: u64) -> (usize, Option<u64>) {
        let set = self.index.set_of(self.geometry, number);
        debug_assert!(self.way_of(set, key).is_none(), "{key:#x} is held already");
        let keys = &mut self.keys[set * self.stride..][..self.geometry.ways()];
        let full = self.filled[set] as usize == keys.len();
        let way = if full {
            self.policy.victim(set)
        } else {
            self.filled[set] += 1;
            keys.iter().position(|&held| held == EMPTY).expect("the set is not full")
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
        (self.slot(set, way), victim)
    }

    /// Drops `key` from the set of `number`; false if it is not there.
    pub fn remove(&mut self, number: u64, key: u64) -> bool {
        let set = self.index.set_of(self.geometry, number);
        let Some(way) = self.way_of(set, key) else { return false };
        self.empty(set, way);
        true
    }

    /// Drops all keys that satisfy `gone`, set by set from the lowest way on.
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

/// Bit i says whether the i-th key is `key`.
#[inline(always)]
fn equal(keys: &[u64], key: u64) -> u32 {
    keys.iter().rev().fold(0, |equal, &held| equal << 1 | u32::from(held == key))
}
