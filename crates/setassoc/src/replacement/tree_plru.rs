//! Tree pseudo-LRU replacement.
//!
//! The ways of a set are the leaves of a binary tree with one bit in each inner node. A hit or a fill makes every node
//! on the way's path point to the other half; the victim is the leaf that the bits point to from the root. At first all
//! bits point to the lower half. Removing a key leaves the bits unchanged. The number of ways must be a power of two.
//!
//! Source: Al-Zoubi, Milenković, Milenković, "Performance Evaluation of Cache Replacement Policies for the
//! SPEC CPU2000 Benchmark Suite", ACM Southeast Conference 2004 (there PLRUt). Four ways are the tree of the
//! Intel486 and Pentium caches (test `pentium_four_ways`).
//!
//! State: ways − 1 bits per set, in one word for up to 64 ways; larger trees are trees of such words, 64 ways to a
//! word. Cost: hit, one masked store per word on the path; victim, one step per level. It differs from LRU: only the
//! log2(ways) last used keys are sure to stay (Reineke, Grund, Berg, Wilhelm, "Timing Predictability of Cache
//! Replacement Policies", Real-Time Systems 37, 2007: minimal life span log2(ways) + 1); an old key beside a new one is
//! safe too (test `an_old_key_hides_beside_a_new_one`).

use crate::{Array, Geometry, NamedPolicy, RelevantHits, ReplacementError, ReplacementPolicy, UseOrder};

/// Ways below one word.
const LEAVES: usize = 64;

/// The bits of the trees.
#[derive(Clone, Debug)]
pub struct TreePlru {
    ways: usize,
    /// Words of one set.
    stride: usize,
    /// For each set the words above groups of 64 ways, then those above groups of 64 words, and so on to the root. Bit
    /// i of a word, from 1 on, is the node between its leaves i − 1 and i: 1 points to the upper half.
    words: Vec<u64>,
}

/// For each leaf of a word, the nodes on its path, and those nodes that have it in their lower half.
///
/// A word with fewer than 64 leaves uses the nodes below its number of leaves; other bits are written but never read.
static PATHS: [(u64, u64); LEAVES] = {
    let mut paths = [(0, 0); LEAVES];
    let mut leaf = 0;
    while leaf < LEAVES {
        let mut half = 1;
        while half < LEAVES {
            let node = (leaf & !(2 * half - 1)) + half;
            paths[leaf].0 |= 1 << node;
            if leaf & half == 0 {
                paths[leaf].1 |= 1 << node;
            }
            half *= 2;
        }
        leaf += 1;
    }
    paths
};

impl Array<TreePlru> {
    /// An empty array.
    ///
    /// # Errors
    /// If the number of ways is not a power of two.
    pub fn new(geometry: Geometry) -> Result<Array<TreePlru>, ReplacementError> {
        Ok(Array::with_policy(geometry, TreePlru::new(geometry)?))
    }
}

impl TreePlru {
    pub(crate) fn new(geometry: Geometry) -> Result<TreePlru, ReplacementError> {
        TreePlru::serves(geometry.ways())?;
        Ok(TreePlru::trees(geometry.sets(), geometry.ways()))
    }

    /// Trees for any number of sets, of a power-of-two number of ways.
    pub(crate) fn trees(sets: usize, ways: usize) -> TreePlru {
        let stride = words_above(ways);
        TreePlru { ways, stride, words: vec![0; sets * stride] }
    }

    /// Makes the bits on this way's path point away from it.
    #[inline(always)]
    pub(crate) fn used(&mut self, set: usize, way: usize) {
        let words = set * self.stride;
        point_away(&mut self.words[words + way / LEAVES], way % LEAVES);
        if self.stride > 1 {
            point_away_above(&mut self.words[words..words + self.stride], self.ways, way);
        }
    }

    /// The way that the bits point to.
    #[inline]
    pub(crate) fn pointed_to(&self, set: usize) -> usize {
        pointed_to(&self.words[set * self.stride..][..self.stride], self.ways)
    }
}

/// Words of the tree above this many ways.
fn words_above(ways: usize) -> usize {
    if ways <= LEAVES { 1 } else { ways / LEAVES + words_above(ways / LEAVES) }
}

/// Makes the node bits of one word point away from this leaf.
#[inline(always)]
fn point_away(word: &mut u64, leaf: usize) {
    let (path, lower) = PATHS[leaf];
    *word = *word & !path | lower;
}

/// [`point_away`] for the words above the way's; not inlined into loops over small sets.
#[inline(never)]
fn point_away_above(words: &mut [u64], ways: usize, way: usize) {
    if ways > LEAVES {
        let (words, ways, way) = (&mut words[ways / LEAVES..], ways / LEAVES, way / LEAVES);
        point_away(&mut words[way / LEAVES], way % LEAVES);
        point_away_above(words, ways, way);
    }
}

/// The leaf that the bits point to.
fn pointed_to(words: &[u64], ways: usize) -> usize {
    if ways > LEAVES {
        let group = pointed_to(&words[ways / LEAVES..], ways / LEAVES);
        return group * LEAVES + pointed_to(&words[group..=group], LEAVES);
    }
    let mut leaf = 0;
    for level in (0..ways.trailing_zeros()).rev() {
        leaf |= (words[0] >> (leaf + (1 << level)) & 1) << level;
    }
    leaf as usize
}

impl NamedPolicy for TreePlru {
    const NAME: &'static str = "tree-plru";
    const RELEVANT_HITS: RelevantHits = RelevantHits::LastUse(UseOrder::Tree);

    fn serves(ways: usize) -> Result<(), ReplacementError> {
        if ways.is_power_of_two() { Ok(()) } else { Err(ReplacementError::TreeWays { ways }) }
    }

    fn of(geometry: Geometry, _seed: u64) -> Result<TreePlru, ReplacementError> {
        TreePlru::new(geometry)
    }
}

impl ReplacementPolicy for TreePlru {
    #[inline(always)]
    fn hit(&mut self, set: usize, way: usize) {
        self.used(set, way);
    }

    #[inline]
    fn victim(&mut self, set: usize) -> usize {
        self.pointed_to(set)
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

    fn filled(ways: u32) -> Array<TreePlru> {
        let mut array = Array::<TreePlru>::new(Geometry::new(ways, None).unwrap()).unwrap();
        for key in 0..u64::from(ways) {
            assert_eq!(array.fill(key, key), None);
        }
        array
    }

    /// The replacement table of the Intel Embedded Pentium Processor Family Developer's Manual (1998): for the bits of
    /// root, lower and upper pair, the line to replace and the bits after a hit on it; `x` is any, `_` unchanged.
    #[test]
    fn pentium_four_ways() {
        // In that table 1 means that the lower half was used last, so the bit points to the upper half.
        let table = [("00x", "11_"), ("01x", "10_"), ("1x0", "0_1"), ("1x1", "0_0")];
        let nodes = [2, 1, 3];
        for (line, (before, after)) in table.into_iter().enumerate() {
            for any in [0, 1] {
                let mut tree = TreePlru::new(Geometry::new(4, None).unwrap()).unwrap();
                let given = |bit: u8| if bit == b'x' { any } else { u64::from(bit - b'0') };
                let bits = before.bytes().zip(nodes).map(|(bit, node)| given(bit) << node);
                tree.words[0] = bits.sum();
                assert_eq!(tree.victim(0), line);
                tree.hit(0, line);
                for (place, node) in nodes.into_iter().enumerate() {
                    let expected = match after.as_bytes()[place] {
                        b'_' => given(before.as_bytes()[place]),
                        bit => given(bit),
                    };
                    assert_eq!(tree.words[0] >> node & 1, expected, "line {line}, node {node}");
                }
            }
        }
    }

    #[test]
    fn an_old_key_hides_beside_a_new_one() {
        let mut array = filled(4);
        for key in [1, 2, 3, 0] {
            assert!(array.touch(key, key));
        }
        // Key 1 is least recent, but key 0 makes the root point away from their pair.
        assert_eq!(array.fill(9, 9), Some(2));
    }

    #[test]
    fn large_trees_take_turns() {
        // Fills alternate between the halves of every node: the victims are the ways in bit-reversed order.
        for ways in [1_u32, 2, 64, 128, 4096] {
            let mut array = filled(ways);
            let bits = ways.trailing_zeros();
            for turn in 0..u64::from(ways) {
                let expected = if bits == 0 { 0 } else { turn.reverse_bits() >> (64 - bits) };
                assert_eq!(array.fill(10_000 + turn, 10_000 + turn), Some(expected), "{ways} ways");
            }
        }
    }

    #[test]
    fn other_numbers_of_ways_are_an_error() {
        let error = Array::<TreePlru>::new(Geometry::new(1536, Some(12)).unwrap()).unwrap_err();
        assert_eq!(error, ReplacementError::TreeWays { ways: 12 });
    }
}
