//! The generator behind initial states of memory and what kernels touch: SplitMix64.
//!
//! A state that begins as the seed; a draw adds 0x9e3779b97f4a7c15 to it and returns z after z = state, z = (z ^ (z >>
//! 30)) × 0xbf58476d1ce4e5b9, z = (z ^ (z >> 27)) × 0x94d049bb133111eb, z = z ^ (z >> 31). A number below n is the
//! upper half of the 128-bit product of a draw and n.
//!
//! Sources: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014. Lemire, "Fast Random
//! Integer Generation in an Interval", ACM TOMACS 29 (1), 2019; its rejection step is left out: below 2^32 a number's
//! chance is off by less than 2^-32. Knuth, "The Art of Computer Programming", vol. 2, section 3.4.2, algorithms S
//! (selection sampling) and P (shuffling).

/// A stream of numbers that its seed alone decides.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    pub fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.state ^ self.state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number from 0 up to, not including, `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.draw()) * u128::from(n)) >> 64) as u64
    }

    /// Whether something happens that happens in this share of all cases, from 0 to 1.
    pub fn chance(&mut self, share: f64) -> bool {
        // Whole numbers below 2^53 have their own f64 each.
        ((self.draw() >> 11) as f64) < share * (1_u64 << 53) as f64
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            items.swap(end, self.below(end as u64 + 1) as usize);
        }
    }
}

/// Chooses exactly `wanted` of `from` items that are shown one by one, every such choice as likely.
pub(crate) struct Sample {
    pub wanted: u64,
    pub from: u64,
}

impl Sample {
    /// Whether the next item is chosen.
    pub fn takes(&mut self, random: &mut Random) -> bool {
        let taken = self.wanted > 0 && random.below(self.from) < self.wanted;
        self.from -= 1;
        self.wanted -= u64::from(taken);
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers that every implementation of SplitMix64 draws from this seed.
    #[test]
    fn steele_2014_known_draws() {
        let mut random = Random::new(1_234_567);
        let known = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!([(); 3].map(|()| random.draw()), known);
    }

    #[test]
    fn chances_come_true_as_often_as_they_say() {
        let mut random = Random::new(1);
        let mut times = |share| (0..10_000).filter(|_| random.chance(share)).count();
        assert_eq!((times(0.0), times(1.0)), (0, 10_000));
        assert!((2_400..2_600).contains(&times(0.25)));
    }

    #[test]
    fn samples_have_their_size_and_are_even() {
        let mut random = Random::new(1);
        let mut chosen = [0; 10];
        for _ in 0..10_000 {
            let mut sample = Sample { wanted: 3, from: 10 };
            for times in &mut chosen {
                *times += u32::from(sample.takes(&mut random));
            }
            assert_eq!(sample.wanted, 0);
        }
        assert!(chosen.iter().all(|times| (2_800..3_200).contains(times)), "{chosen:?}");
    }
}
