//! Bit pseudo-LRU replacement, also called not-recently-used or MRU replacement.
//!
//! Each way has a bit that a hit or a fill sets. If that would leave no clear bit in the set, all other bits are
//! cleared. The victim is the lowest way with a clear bit (or the only way). At first all bits are clear. Removing a
//! key leaves its way's bit unchanged.
//!
//! Source: Al-Zoubi, Milenković, Milenković, "Performance Evaluation of Cache Replacement Policies for the
//! SPEC CPU2000 Benchmark Suite", ACM Southeast Conference 2004 (there PLRUm).
//!
//! A report of how it differs from LRU where bits are cleared together: DynamoRIO/dynamorio, issue 7288.
//!
//! State: one bit per way, and the number of set bits. Cost: hit, a test, and rarely a store; victim, one scan of the
//! set's words.

use crate::{Array, Geometry, NamedPolicy, RelevantHits, ReplacementError, ReplacementPolicy};

/// The bits of the ways.
#[derive(Clone, Debug)]
pub struct BitPlru {
    ways: usize,
    /// Words of one set.
    stride: usize,
    words: Vec<u64>,
    /// Bits set in each set; fewer than its ways, or 1.
    recent: Vec<u32>,
}

impl Array<BitPlru> {
    /// An empty array.
    pub fn new(geometry: Geometry) -> Array<BitPlru> {
        Array::with_policy(geometry, BitPlru::new(geometry))
    }
}

impl BitPlru {
    pub(crate) fn new(geometry: Geometry) -> BitPlru {
        let stride = geometry.ways().div_ceil(64);
        BitPlru {
            ways: geometry.ways(),
            stride,
            words: vec![0; geometry.sets() * stride],
            recent: vec![0; geometry.sets()],
        }
    }
}

impl NamedPolicy for BitPlru {
    const NAME: &'static str = "bit-plru";
    const RELEVANT_HITS: RelevantHits = RelevantHits::Changes;

    fn of(geometry: Geometry, _seed: u64) -> Result<BitPlru, ReplacementError> {
        Ok(BitPlru::new(geometry))
    }
}

impl ReplacementPolicy for BitPlru {
    #[inline(always)]
    fn hit(&mut self, set: usize, way: usize) {
        let words = &mut self.words[set * self.stride..][..self.stride];
        let bit = 1 << (way % 64);
        if words[way / 64] & bit != 0 {
            return;
        }
        self.recent[set] += 1;
        if self.recent[set] as usize == self.ways {
            self.recent[set] = 1;
            words.fill(0);
        }
        words[way / 64] |= bit;
    }

    #[inline]
    fn victim(&mut self, set: usize) -> usize {
        if self.ways == 1 {
            return 0;
        }
        let words = &self.words[set * self.stride..][..self.stride];
        let at = words.iter().position(|&word| word != u64::MAX).expect("a bit is clear");
        at * 64 + words[at].trailing_ones() as usize
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
    fn the_last_clear_bit_clears_the_others() {
        let mut array = Array::<BitPlru>::new(Geometry::new(4, None).unwrap());
        for key in [0, 1, 2, 3] {
            assert_eq!(array.fill(key, key), None);
        }
        // Filling way 3 left its bit as the only one set.
        assert!(array.touch(0, 0));
        assert_eq!(array.fill(4, 4), Some(1));
        // Way 2 has the last clear bit: a hit there leaves its bit as the only one set.
        assert!(array.touch(2, 2));
        assert_eq!(array.fill(5, 5), Some(0));
    }

    #[test]
    fn one_way_is_always_the_victim() {
        let mut array = Array::<BitPlru>::new(Geometry::new(2, Some(1)).unwrap());
        assert_eq!([2, 4, 4, 6].map(|key| array.fill(key, key)), [None, Some(2), None, Some(4)]);
    }

    #[test]
    fn sets_of_several_words() {
        let mut array = Array::<BitPlru>::new(Geometry::new(100, None).unwrap());
        for key in 0..100 {
            assert_eq!(array.fill(key, key), None);
        }
        let victims: Vec<_> = (100..199).map(|key| array.fill(key, key)).collect();
        assert!(victims.into_iter().eq((0..99).map(Some)));
        // The fill of way 98 cleared all others.
        assert_eq!(array.fill(200, 200), Some(100));
    }
}
