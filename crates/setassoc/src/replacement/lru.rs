//! True least-recently-used replacement.
//!
//! Every hit and fill makes its key the most recent of the set; the victim is the least recent.
//!
//! Source: Mattson, Gecsei, Slutz, Traiger, "Evaluation Techniques for Storage Hierarchies", IBM Systems
//! Journal 9 (2), 1970, section "Stack algorithms": with the same sets, an array of more ways holds
//! everything that one of fewer holds, so it never misses more.
//!
//! State: a 64-bit time for each entry. Cost: hit, one store; victim, one scan of the set's times.

use crate::{Array, Geometry, NamedPolicy, RelevantHits, ReplacementError, ReplacementPolicy, UseOrder};

/// Times of last use of each way.
#[derive(Clone, Debug)]
pub struct Lru {
    ways: usize,
    stamps: Vec<u64>,
    clock: u64,
}

/// An array with least-recently-used replacement.
pub type LruArray = Array<Lru>;

impl LruArray {
    /// An empty array.
    pub fn new(geometry: Geometry) -> LruArray {
        Array::with_policy(geometry, Lru::new(geometry))
    }
}

impl Lru {
    pub(crate) fn new(geometry: Geometry) -> Lru {
        Lru { ways: geometry.ways(), stamps: vec![0; geometry.entries()], clock: 0 }
    }
}

impl NamedPolicy for Lru {
    const NAME: &'static str = "lru";
    const RELEVANT_HITS: RelevantHits = RelevantHits::LastUse(UseOrder::Oldest);

    fn of(geometry: Geometry, _seed: u64) -> Result<Lru, ReplacementError> {
        Ok(Lru::new(geometry))
    }
}

impl ReplacementPolicy for Lru {
    #[inline(always)]
    fn hit(&mut self, set: usize, way: usize) {
        self.clock += 1;
        self.stamps[set * self.ways + way] = self.clock;
    }

    #[inline]
    fn victim(&mut self, set: usize) -> usize {
        let stamps = &self.stamps[set * self.ways..][..self.ways];
        (0..self.ways).min_by_key(|&way| stamps[way]).expect("at least one way")
    }

    #[inline]
    fn fill(&mut self, set: usize, way: usize) {
        self.hit(set, way);
    }

    /// Times of empty ways are not read.
    fn remove(&mut self, _set: usize, _way: usize) {}
}
