//! Pseudo-LRU with three trees of bits: the tree after the most recently used one gives the victim.
//!
//! The ways of a set form three trees, like those of [`super::tree_plru`]. A hit or a fill makes the bits on the way's
//! path point away from it, and its tree the recent one. The next tree, cyclically, points to the victim. Removing a
//! key changes nothing. The ways must be 3 · 2^k.
//!
//! Source: Tatar, Trujillo, Giuffrida, Bos, "TLB;DR: Enhancing TLB-based Attacks with TLB Desynchronized Reverse
//! Engineering", USENIX Security 2022, there `(MRU+1)%3PLRU4`: the second-level TLB of Intel's Skylake to Comet Lake,
//! 12 ways (test `tatar_2022_permutations`).
//!
//! State: ways − 3 bits and the recent tree of each set. Cost: as of one tree.

use super::three_trees::{self, TREES, ThreeTrees};
use crate::{Array, Geometry, NamedPolicy, RelevantHits, ReplacementError, ReplacementPolicy, UseOrder};

/// The trees, and the last used one.
#[derive(Clone, Debug)]
pub struct Mru3Plru {
    trees: ThreeTrees,
    recent: Vec<u8>,
}

impl Array<Mru3Plru> {
    /// An empty array.
    ///
    /// # Errors
    /// If the number of ways is not three times a power of two.
    pub fn new(geometry: Geometry) -> Result<Array<Mru3Plru>, ReplacementError> {
        Ok(Array::with_policy(geometry, Mru3Plru::of(geometry, 0)?))
    }
}

impl NamedPolicy for Mru3Plru {
    const NAME: &'static str = "mru3-plru";
    const RELEVANT_HITS: RelevantHits = RelevantHits::LastUse(UseOrder::NextOfThreeTrees);

    fn serves(ways: usize) -> Result<(), ReplacementError> {
        three_trees::serves(Mru3Plru::NAME, ways)
    }

    fn of(geometry: Geometry, _seed: u64) -> Result<Mru3Plru, ReplacementError> {
        Mru3Plru::serves(geometry.ways())?;
        Ok(Mru3Plru { trees: ThreeTrees::new(geometry), recent: vec![0; geometry.sets()] })
    }
}

impl ReplacementPolicy for Mru3Plru {
    #[inline(always)]
    fn hit(&mut self, set: usize, way: usize) {
        self.trees.used(set, way);
        self.recent[set] = self.trees.tree_of(way) as u8;
    }

    #[inline]
    fn victim(&mut self, set: usize) -> usize {
        let next = (usize::from(self.recent[set]) + 1) % TREES;
        self.trees.pointed_to(set, next)
    }

    #[inline]
    fn fill(&mut self, set: usize, way: usize) {
        self.hit(set, way);
    }

    fn remove(&mut self, _set: usize, _way: usize) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys in the order of future replacement, the last one first, as in the paper.
    fn order(array: &Array<Mru3Plru>) -> Vec<u64> {
        let mut array = array.clone();
        let mut gone: Vec<u64> = (1000..1012).filter_map(|key| array.fill(key, key)).collect();
        gone.reverse();
        gone
    }

    /// The effect of a hit at each position on that order, as the paper's tool measured it on a Skylake.
    #[test]
    fn tatar_2022_permutations() {
        let printed = [
            [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11],
            [1, 2, 0, 4, 5, 3, 7, 8, 6, 10, 11, 9],
            [2, 0, 1, 5, 3, 4, 8, 6, 7, 11, 9, 10],
            [3, 1, 2, 0, 4, 5, 9, 7, 8, 6, 10, 11],
            [4, 2, 0, 1, 5, 3, 10, 8, 6, 7, 11, 9],
            [5, 0, 1, 2, 3, 4, 11, 6, 7, 8, 9, 10],
            [6, 1, 2, 3, 4, 5, 0, 7, 8, 9, 10, 11],
            [7, 2, 0, 4, 5, 3, 1, 8, 6, 10, 11, 9],
            [8, 0, 1, 5, 3, 4, 2, 6, 7, 11, 9, 10],
            [9, 1, 2, 0, 4, 5, 3, 7, 8, 6, 10, 11],
            [10, 2, 0, 1, 5, 3, 4, 8, 6, 7, 11, 9],
            [11, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
        ];
        let mut array = Array::<Mru3Plru>::new(Geometry::new(12, None).unwrap()).unwrap();
        for key in 0..40 {
            array.fill(key, key);
        }
        let before = order(&array);
        for (place, permuted) in printed.into_iter().enumerate() {
            let mut array = array.clone();
            assert!(array.touch(before[place], before[place]));
            assert_eq!(order(&array), permuted.map(|from| before[from]), "a hit at place {place}");
        }
    }
}
