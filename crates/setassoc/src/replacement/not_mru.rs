//! Random replacement that excludes the last used key.
//!
//! The victim is any way of the full set except the one hit or filled last, all equally likely (or the only way). Each
//! victim takes one draw from the array's own generator ([`Draws`]), and nothing else draws. Removing a key changes
//! nothing.
//!
//! Source: Romer, "Using Virtual Memory to Improve Cache and TLB Performance", PhD thesis, University of Washington,
//! 1998, section 3.7: the TLBs of the Alpha 21064 replace an entry that was not used last. It does not say which one;
//! here all are equally likely.
//!
//! State: a way per set, 64 bits per array. Cost: hit, a store; victim, three multiplications.

use crate::{Array, Geometry, NamedPolicy, RelevantHits, ReplacementError, ReplacementPolicy};
use pagewalk_units::Draws;

/// The last used way of each set, and the generator.
#[derive(Clone, Debug)]
pub struct NotMru {
    ways: u64,
    recent: Vec<u32>,
    draws: Draws,
}

impl Array<NotMru> {
    /// An empty array.
    pub fn new(geometry: Geometry, seed: u64) -> Array<NotMru> {
        Array::with_policy(geometry, NotMru::new(geometry, seed))
    }
}

impl NotMru {
    fn new(geometry: Geometry, seed: u64) -> NotMru {
        NotMru { ways: geometry.ways() as u64, recent: vec![0; geometry.sets()], draws: Draws::new(seed) }
    }
}

impl NamedPolicy for NotMru {
    const NAME: &'static str = "not-mru";
    const RELEVANT_HITS: RelevantHits = RelevantHits::Changes;

    fn of(geometry: Geometry, seed: u64) -> Result<NotMru, ReplacementError> {
        Ok(NotMru::new(geometry, seed))
    }
}

impl ReplacementPolicy for NotMru {
    #[inline(always)]
    fn hit(&mut self, set: usize, way: usize) {
        self.recent[set] = way as u32;
    }

    #[inline]
    fn victim(&mut self, set: usize) -> usize {
        // A single way has no alternative.
        let drawn = self.draws.below((self.ways - 1).max(1)) as usize;
        let spared = self.recent[set] as usize;
        if self.ways > 1 && drawn >= spared { drawn + 1 } else { drawn }
    }

    #[inline(always)]
    fn fill(&mut self, set: usize, way: usize) {
        self.hit(set, way);
    }

    fn remove(&mut self, _set: usize, _way: usize) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_but_the_last_used_is_as_likely() {
        let mut policy = NotMru::new(Geometry::new(12, None).unwrap(), 0);
        policy.hit(0, 5);
        let mut chosen = [0; 12];
        for _ in 0..110_000 {
            chosen[policy.victim(0)] += 1;
        }
        assert_eq!(chosen[5], 0);
        let others = chosen.iter().enumerate().filter(|(way, _)| *way != 5);
        assert!(others.into_iter().all(|(_, count)| (9_500..10_500).contains(count)), "{chosen:?}");
    }

    #[test]
    fn one_way_is_always_the_victim() {
        let mut array = Array::<NotMru>::new(Geometry::new(2, Some(1)).unwrap(), 1);
        assert_eq!([2, 4, 4, 6].map(|key| array.fill(key, key)), [None, Some(2), None, Some(4)]);
    }
}
