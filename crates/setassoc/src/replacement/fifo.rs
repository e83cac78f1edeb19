//! First-in, first-out replacement.
//!
//! The victim is the key filled longest ago; hits change nothing. A key removed and filled again is new.
//!
//! Sources: Belady, "A Study of Replacement Algorithms for a Virtual-Storage Computer", IBM Systems Journal 5 (2),
//! 1966. Belady, Nelson, Shedler, "An Anomaly in Space-Time Characteristics of Certain Programs Running in a Paging
//! Machine", CACM 12 (6), 1969: more ways can miss more (test `belady_1969_anomaly`). Hardware cycles a pointer through
//! the ways, which is equal until an entry is invalidated; then this still follows the order of arrival, and a pointer
//! does not.
//!
//! State: the ways of each set in order of arrival. Cost: hit, nothing; victim and fill, O(1); removal, one
//! pass over the set.

use crate::{Array, Geometry, NamedPolicy, RelevantHits, ReplacementError, ReplacementPolicy};

/// The order in which ways were filled.
#[derive(Clone, Debug)]
pub struct Fifo {
    ways: usize,
    /// The filled ways of each set, as a ring.
    order: Vec<u32>,
    rings: Vec<Ring>,
}

/// The ring of one set.
#[derive(Clone, Copy, Debug, Default)]
struct Ring {
    /// The position of the oldest; 0 unless the set is full.
    oldest: u32,
    /// Filled ways.
    filled: u32,
}

impl Array<Fifo> {
    /// An empty array.
    pub fn new(geometry: Geometry) -> Array<Fifo> {
        Array::with_policy(geometry, Fifo::new(geometry))
    }
}

impl Fifo {
    pub(crate) fn new(geometry: Geometry) -> Fifo {
        Fifo {
            ways: geometry.ways(),
            order: vec![0; geometry.entries()],
            rings: vec![Ring::default(); geometry.sets()],
        }
    }
}

impl NamedPolicy for Fifo {
    const NAME: &'static str = "fifo";
    const RELEVANT_HITS: RelevantHits = RelevantHits::Nothing;

    fn of(geometry: Geometry, _seed: u64) -> Result<Fifo, ReplacementError> {
        Ok(Fifo::new(geometry))
    }
}

impl ReplacementPolicy for Fifo {
    #[inline(always)]
    fn hit(&mut self, _set: usize, _way: usize) {}

    #[inline]
    fn victim(&mut self, set: usize) -> usize {
        self.order[set * self.ways + self.rings[set].oldest as usize] as usize
    }

    #[inline]
    fn fill(&mut self, set: usize, way: usize) {
        let ring = &mut self.rings[set];
        if ring.filled as usize == self.ways {
            // The oldest way becomes the newest in place, and its successor the oldest.
            ring.oldest = if ring.oldest as usize + 1 == self.ways { 0 } else { ring.oldest + 1 };
        } else {
            self.order[set * self.ways + ring.filled as usize] =
                u32::try_from(way).expect("fewer ways than entries, which are at most 2^24");
            ring.filled += 1;
        }
    }

    fn remove(&mut self, set: usize, way: usize) {
        let ring = &mut self.rings[set];
        let order = &mut self.order[set * self.ways..][..self.ways];
        order.rotate_left(ring.oldest as usize);
        let at = order.iter().position(|&held| held as usize == way).expect("the way was filled");
        order.copy_within(at + 1..ring.filled as usize, at);
        *ring = Ring { oldest: 0, filled: ring.filled - 1 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn misses(ways: u32, pages: &[u64]) -> usize {
        let mut array = Array::<Fifo>::new(Geometry::new(ways, None).unwrap());
        let mut missed = |page: u64| {
            let missed = !array.touch(page, page);
            array.fill(page, page);
            missed
        };
        pages.iter().filter(|&&page| missed(page)).count()
    }

    /// The paper's string of references: nine faults with three frames, ten with four.
    #[test]
    fn belady_1969_anomaly() {
        let pages = [1, 2, 3, 4, 1, 2, 5, 1, 2, 3, 4, 5];
        assert_eq!(misses(3, &pages), 9);
        assert_eq!(misses(4, &pages), 10);
    }

    #[test]
    fn order_of_arrival_survives_removal() {
        let mut array = Array::<Fifo>::new(Geometry::new(3, None).unwrap());
        for key in [1, 2, 3] {
            assert_eq!(array.fill(key, key), None);
        }
        assert_eq!(array.fill(4, 4), Some(1));
        assert!(array.remove(3, 3));
        assert_eq!(array.fill(5, 5), None);
        assert_eq!([6, 7, 8].map(|key| array.fill(key, key)), [Some(2), Some(4), Some(5)]);
    }
}
