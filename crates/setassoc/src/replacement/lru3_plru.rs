//! Pseudo-LRU with three trees of bits: the least recently used tree gives the victim.
//!
//! Like [`super::mru3_plru`], except that the least recently used tree points to the victim.
//!
//! Source: Abel and Reineke, "nanoBench: A Low-Overhead Tool for Running Microbenchmarks on x86 Systems", ISPASS 2020,
//! with uops.info/cache.html, there `LRU3PLRU4`: the first-level data cache of Intel's Ice Lake, 12 ways.
//!
//! State: ways − 3 bits of each set and the order of its trees. Cost: as of one tree.

use super::three_trees::{self, TREES, ThreeTrees};
use crate::{Array, Geometry, NamedPolicy, RelevantHits, ReplacementError, ReplacementPolicy, UseOrder};

/// The trees and their order of use.
#[derive(Clone, Debug)]
pub struct Lru3Plru {
    trees: ThreeTrees,
    /// The order of each set's trees, the last used first.
    order: Vec<[u8; TREES]>,
}

impl Array<Lru3Plru> {
    /// An empty array.
    ///
    /// # Errors
    /// If the number of ways is not three times a power of two.
    pub fn new(geometry: Geometry) -> Result<Array<Lru3Plru>, ReplacementError> {
        Ok(Array::with_policy(geometry, Lru3Plru::of(geometry, 0)?))
    }
}

impl NamedPolicy for Lru3Plru {
    const NAME: &'static str = "lru3-plru";
    const RELEVANT_HITS: RelevantHits = RelevantHits::LastUse(UseOrder::OldestOfThreeTrees);

    fn serves(ways: usize) -> Result<(), ReplacementError> {
        three_trees::serves(Lru3Plru::NAME, ways)
    }

    fn of(geometry: Geometry, _seed: u64) -> Result<Lru3Plru, ReplacementError> {
        Lru3Plru::serves(geometry.ways())?;
        Ok(Lru3Plru { trees: ThreeTrees::new(geometry), order: vec![[2, 1, 0]; geometry.sets()] })
    }
}

impl ReplacementPolicy for Lru3Plru {
    #[inline(always)]
    fn hit(&mut self, set: usize, way: usize) {
        self.trees.used(set, way);
        let tree = self.trees.tree_of(way) as u8;
        let order = &mut self.order[set];
        let at = order.iter().position(|&other| other == tree).expect("one of the three");
        order[..=at].rotate_right(1);
    }

    #[inline]
    fn victim(&mut self, set: usize) -> usize {
        self.trees.pointed_to(set, usize::from(self.order[set][TREES - 1]))
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

    #[test]
    fn the_tree_not_used_for_longest_gives_way() {
        let mut array = Array::<Lru3Plru>::new(Geometry::new(6, None).unwrap()).unwrap();
        for key in 0..6 {
            assert_eq!(array.fill(key, key), None);
        }
        // Trees of keys 0 and 1, 2 and 3, 4 and 5. The first becomes the recent one, the second is next.
        assert!(array.touch(0, 0));
        assert_eq!(array.fill(6, 6), Some(2));
        assert_eq!(array.fill(7, 7), Some(4));
        assert_eq!(array.fill(8, 8), Some(1));
    }

    #[test]
    fn other_numbers_of_ways_are_an_error() {
        for ways in [1, 2, 4, 8, 9, 15, 16] {
            let why = Array::<Lru3Plru>::new(Geometry::new(ways, None).unwrap()).unwrap_err();
            assert_eq!(why.to_string(), format!("lru3-plru needs 3, 6, 12, 24 or 3 · 2^k ways, not {ways}"));
        }
    }
}
