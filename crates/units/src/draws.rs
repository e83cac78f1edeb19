//! Reproducible pseudo-random numbers: SplitMix64.
//!
//! The state starts as the seed. A draw adds 0x9e3779b97f4a7c15 to the state and returns z after z = state,
//! z = (z ^ (z >> 30)) × 0xbf58476d1ce4e5b9, z = (z ^ (z >> 27)) × 0x94d049bb133111eb, z = z ^ (z >> 31). A number
//! below n is the upper half of the 128-bit product of the draw and n.
//!
//! Sources: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014. Lemire, "Fast Random
//! Integer Generation in an Interval", ACM TOMACS 29 (1), 2019, for the product; its rejection step is left out, so a
//! number's chance is off by less than 2^-32 where `n` is below 2^32. Knuth, "The Art of Computer Programming", vol. 2,
//! section 3.4.2, algorithm P (shuffling).

/// The constant that each draw adds to the state.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// SplitMix64's output function: each bit of `state` affects about half of the bits of the result.
#[inline]
fn finished(state: u64) -> u64 {
    let z = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// A hash of a number: the first draw from it as a seed.
#[inline]
pub fn mixed(number: u64) -> u64 {
    finished(number.wrapping_add(STEP))
}

/// A pseudo-random number generator. Streams that must be independent need different seeds.
#[derive(Clone, Debug)]
pub struct Draws {
    state: u64,
}

impl Draws {
    /// A generator with this seed.
    pub fn new(seed: u64) -> Draws {
        Draws { state: seed }
    }

    /// A uniformly distributed 64-bit number.
    #[inline]
    pub fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        finished(self.state)
    }

    /// A uniformly distributed number below `n`.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.draw()) * u128::from(n)) >> 64) as u64
    }

    /// True with probability `share`, from 0 to 1.
    pub fn chance(&mut self, share: f64) -> bool {
        // Every integer below 2^53 has an exact f64.
        ((self.draw() >> 11) as f64) < share * (1_u64 << 53) as f64
    }

    /// Shuffles the items; every order is equally likely.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            items.swap(end, self.below(end as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers that SplitMix64 draws from this seed, known from other implementations.
    #[test]
    fn steele_2014_known_draws() {
        let mut draws = Draws::new(1_234_567);
        let known = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        assert_eq!([(); 5].map(|()| draws.draw()), known);
    }

    #[test]
    fn chances_come_true_as_often_as_they_say() {
        let mut draws = Draws::new(1);
        let mut times = |share| (0..10_000).filter(|_| draws.chance(share)).count();
        assert_eq!((times(0.0), times(1.0)), (0, 10_000));
        assert!((2_400..2_600).contains(&times(0.25)));
    }
}
