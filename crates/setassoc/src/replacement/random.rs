//! Random replacement.
//!
//! The victim is any way of the full set, all equally likely; hits change nothing. Each victim takes one draw from the
//! array's own generator ([`Draws`]), and nothing else draws, so results depend only on the seed and the references.
//!
//! Source: Uhlig, Nagle, Stanley, Mudge, Sechrest, Brown, "Design Tradeoffs for Software-Managed TLBs", ACM
//! TOCS 12 (3), 1994, section 5.2: the random replacement of the MIPS R2000 (whose `Random` register counts
//! cycles instead), about as good as FIFO.
//!
//! State: 64 bits for the array. Cost: hit, nothing; victim, three multiplications.

use crate::{Array, Geometry, NamedPolicy, RelevantHits, ReplacementError, ReplacementPolicy};
use pagewalk_units::Draws;

/// The generator and the number of ways.
#[derive(Clone, Debug)]
pub struct Random {
    ways: u64,
    draws: Draws,
}

impl Array<Random> {
    /// An empty array.
    pub fn new(geometry: Geometry, seed: u64) -> Array<Random> {
        Array::with_policy(geometry, Random::new(geometry, seed))
    }
}

impl Random {
    pub(crate) fn new(geometry: Geometry, seed: u64) -> Random {
        Random { ways: geometry.ways() as u64, draws: Draws::new(seed) }
    }
}

impl NamedPolicy for Random {
    const NAME: &'static str = "random";
    const RELEVANT_HITS: RelevantHits = RelevantHits::Nothing;

    fn of(geometry: Geometry, seed: u64) -> Result<Random, ReplacementError> {
        Ok(Random::new(geometry, seed))
    }
}

impl ReplacementPolicy for Random {
    #[inline(always)]
    fn hit(&mut self, _set: usize, _way: usize) {}

    #[inline]
    fn victim(&mut self, _set: usize) -> usize {
        self.draws.below(self.ways) as usize
    }

    #[inline(always)]
    fn fill(&mut self, _set: usize, _way: usize) {}

    fn remove(&mut self, _set: usize, _way: usize) {}
}

#[cfg(test)]
mod tests {
    use super::*;

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
