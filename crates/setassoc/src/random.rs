//! Random replacement.
//!
//! The victim is any way of the full set, each as likely; hits change nothing. Each array draws from a
//! generator of its own, one draw for each victim and for nothing else, so results depend on the seed and the
//! references alone. Arrays of one machine should have different seeds.
//!
//! The generator is SplitMix64: a state that begins as the seed; a draw adds 0x9e3779b97f4a7c15 to it and
//! returns z after z = state, z = (z ^ (z >> 30)) × 0xbf58476d1ce4e5b9, z = (z ^ (z >> 27)) ×
//! 0x94d049bb133111eb, z = z ^ (z >> 31). The way is the upper half of the 128-bit product of the draw and
//! the number of ways.
//!
//! Sources: Uhlig, Nagle, Stanley, Mudge, Sechrest, Brown, "Design Tradeoffs for Software-Managed TLBs", ACM
//! TOCS 12 (3), 1994, section 5.2: the random replacement of the MIPS R2000 (whose `Random` register counts
//! cycles instead), about as good as FIFO. Steele, Lea, Flood, "Fast Splittable Pseudorandom Number
//! Generators", OOPSLA 2014. Lemire, "Fast Random Integer Generation in an Interval", ACM TOMACS 29 (1),
//! 2019, for the product; its rejection step is left out, so a way's chance is off by less than 2^-40.
//!
//! State: 64 bits for the array. Cost: hit, nothing; victim, three multiplications.

use crate::{Array, Geometry, ReplacementPolicy};

/// The generator and what it is asked for.
#[derive(Clone, Debug)]
pub struct Random {
    ways: u64,
    state: u64,
}

impl Array<Random> {
    /// An empty array.
    pub fn new(geometry: Geometry, seed: u64) -> Array<Random> {
        Array::with_policy(geometry, Random::new(geometry, seed))
    }
}

impl Random {
    pub(crate) fn new(geometry: Geometry, seed: u64) -> Random {
        Random { ways: geometry.ways() as u64, state: seed }
    }

    #[inline]
    fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.state ^ self.state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
}

impl ReplacementPolicy for Random {
    #[inline(always)]
    fn hit(&mut self, _set: usize, _way: usize) {}

    #[inline]
    fn victim(&mut self, _set: usize) -> usize {
        ((u128::from(self.draw()) * u128::from(self.ways)) >> 64) as usize
    }

    #[inline(always)]
    fn fill(&mut self, _set: usize, _way: usize) {}

    fn remove(&mut self, _set: usize, _way: usize) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers that every implementation of SplitMix64 draws from this seed.
    #[test]
    fn steele_2014_known_draws() {
        let mut random = Random::new(Geometry::new(4, None).unwrap(), 1_234_567);
        let draws = [(); 5].map(|()| random.draw());
        let known = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        assert_eq!(draws, known);
    }

    #[test]
    fn every_way_is_as_likely() {
        let mut random = Random::new(Geometry::new(12, None).unwrap(), 0);
        let mut chosen = [0; 12];
        for _ in 0..120_000 {
            chosen[random.victim(0)] += 1;
        }
        assert!(chosen.iter().all(|count| (9_500..10_500).contains(count)), "{chosen:?}");
    }
}
