//! Sequential sampling (Knuth, "The Art of Computer Programming", vol. 2, section 3.4.2, algorithm S).

use pagewalk_units::Draws;

/// Chooses exactly `wanted` of `from` items in sequence, all choices equally likely.
pub(crate) struct Sample {
    pub wanted: u64,
    pub from: u64,
}

impl Sample {
    /// Whether the next item is chosen.
    pub fn takes(&mut self, draws: &mut Draws) -> bool {
        let taken = self.wanted > 0 && draws.below(self.from) < self.wanted;
        self.from -= 1;
        self.wanted -= u64::from(taken);
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_have_their_size_and_are_even() {
        let mut draws = Draws::new(1);
        let mut chosen = [0; 10];
        for _ in 0..10_000 {
            let mut sample = Sample { wanted: 3, from: 10 };
            for times in &mut chosen {
                *times += u32::from(sample.takes(&mut draws));
            }
            assert_eq!(sample.wanted, 0);
        }
        assert!(chosen.iter().all(|times| (2_800..3_200).contains(times)), "{chosen:?}");
    }
}
