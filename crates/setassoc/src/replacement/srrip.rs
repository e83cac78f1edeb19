//! Static re-reference interval prediction with hit priority, SRRIP-HP.
//!
//! Each way has M bits that predict the distance of its next use, from 0 (near) to 2^M − 1 (distant). A fill sets 2^M −
//! 2, a hit 0. The victim is the lowest distant way; if none is distant, all predictions of the set rise equally until
//! one is. At first all are distant.
//!
//! Source: Jaleel, Theobald, Steely, Emer, "High Performance Cache Replacement Using Re-Reference Interval Prediction
//! (RRIP)", ISCA 2010. M is 2 in `srrip`, as in the paper's abstract, and 3 in `srrip-3`.
//!
//! A hit right after the fill of its key changes the prediction, so every hit is relevant, including repetitions.
//!
//! State: a byte per entry. Cost: hit, one store; victim, one or two passes over the set.

use crate::{Geometry, NamedPolicy, RelevantHits, ReplacementError, ReplacementPolicy};

/// The predictions of the ways.
#[derive(Clone, Debug)]
pub struct Srrip<const BITS: u32> {
    ways: usize,
    predicted: Vec<u8>,
}

impl<const BITS: u32> Srrip<BITS> {
    /// The prediction of the farthest next use.
    pub(super) const DISTANT: u8 = (1 << BITS) - 1;
    /// The prediction of a fill.
    pub(super) const LONG: u8 = Self::DISTANT - 1;

    pub(super) fn new(geometry: Geometry) -> Srrip<BITS> {
        Srrip { ways: geometry.ways(), predicted: vec![Self::DISTANT; geometry.entries()] }
    }

    /// Sets the prediction of a way.
    #[inline]
    pub(super) fn predict(&mut self, set: usize, way: usize, interval: u8) {
        self.predicted[set * self.ways + way] = interval;
    }
}

impl<const BITS: u32> NamedPolicy for Srrip<BITS> {
    const NAME: &'static str = match BITS {
        2 => "srrip",
        3 => "srrip-3",
        _ => panic!("no name for so many bits"),
    };
    const RELEVANT_HITS: RelevantHits = RelevantHits::Each;

    fn of(geometry: Geometry, _seed: u64) -> Result<Srrip<BITS>, ReplacementError> {
        Ok(Srrip::new(geometry))
    }
}

impl<const BITS: u32> ReplacementPolicy for Srrip<BITS> {
    #[inline(always)]
    fn hit(&mut self, set: usize, way: usize) {
        self.predict(set, way, 0);
    }

    #[inline]
    fn victim(&mut self, set: usize) -> usize {
        let predicted = &mut self.predicted[set * self.ways..][..self.ways];
        let farthest = *predicted.iter().max().expect("at least one way");
        let way =
            predicted.iter().position(|&interval| interval == farthest).expect("the farthest is one of them");
        if farthest < Self::DISTANT {
            predicted.iter_mut().for_each(|interval| *interval += Self::DISTANT - farthest);
        }
        way
    }

    #[inline]
    fn fill(&mut self, set: usize, way: usize) {
        self.predict(set, way, Self::LONG);
    }

    fn remove(&mut self, _set: usize, _way: usize) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paper's example with 2 bits and 4 ways: a1 and a2, which are reused, survive a scan of b1 to b4, which
    /// evicts both under LRU.
    #[test]
    fn jaleel_2010_a_scan_leaves_what_was_reused() {
        let mut policy = Srrip::<2>::new(Geometry::new(4, None).unwrap());
        let (a1, a2) = (0, 1);
        for way in [a1, a2] {
            policy.fill(0, way);
        }
        for way in [a2, a1] {
            policy.hit(0, way);
        }
        // b1 and b2 go into the empty ways; b3 finds none distant, so all predictions rise by 1.
        policy.fill(0, 2);
        policy.fill(0, 3);
        assert_eq!(policy.predicted, [0, 0, 2, 2]);
        assert_eq!(policy.victim(0), 2);
        assert_eq!(policy.predicted, [1, 1, 3, 3]);
        policy.fill(0, 2);
        assert_eq!(policy.victim(0), 3);
        policy.fill(0, 3);
        assert_eq!(policy.predicted, [1, 1, 2, 2]);
    }

    #[test]
    fn more_bits_outlive_more() {
        let scanned = |array: &mut crate::SetArray| {
            assert_eq!(array.fill(0, 0), None);
            assert!(array.touch(0, 0));
            (1..).find(|&key| array.fill(key, key) == Some(0)).expect("some time")
        };
        let array = |name| {
            let replacement = crate::Replacement::from_name(name, 0).unwrap();
            crate::SetArray::new(Geometry::new(4, None).unwrap(), replacement).unwrap()
        };
        assert!(scanned(&mut array("srrip")) < scanned(&mut array("srrip-3")));
    }
}
