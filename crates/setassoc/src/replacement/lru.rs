//! True least-recently-used replacement.
//!
//! Every hit and fill makes its key the most recent of the set; the victim is the least recent.
//!
//! Source: Mattson, Gecsei, Slutz, Traiger, "Evaluation Techniques for Storage Hierarchies", IBM Systems
//! Journal 9 (2), 1970, section "Stack algorithms": with the same sets, an array of more ways holds
//! everything that one of fewer holds, so it never misses more.
//!
//! State: small sets have a 64-bit time for each entry. Cost: hit, one store; victim, one scan of the set's times.
//! Larger ones have the order itself, as a ring of ways. Cost: hit, five stores; victim, none.

use crate::way::{Way, are_bytes};
use crate::{Array, Geometry, NamedPolicy, RelevantHits, ReplacementError, ReplacementPolicy, UseOrder};

/// Sets of more ways have rings: a scan of so many times costs more than the order at some hits.
const SCANNED_WAYS_MAX: usize = 16;

/// The order of use of each set's ways.
#[derive(Clone, Debug)]
pub struct Lru {
    ways: usize,
    order: Order,
}

#[derive(Clone, Debug)]
enum Order {
    /// Times of last use of each way.
    Times {
        stamps: Vec<u64>,
        clock: u64,
    },
    Rings(Rings<u8>),
    /// Of more ways.
    WideRings(Rings<u32>),
}

/// The ways of each set in a ring, each before the next older one; the latest follows the oldest.
#[derive(Clone, Debug)]
struct Rings<W> {
    /// By set.
    latest: Vec<W>,
    /// By entry.
    neighbours: Vec<Neighbours<W>>,
}

/// The ways beside one in its ring.
#[derive(Clone, Copy, Debug)]
struct Neighbours<W> {
    newer: W,
    older: W,
}

impl<W: Way> Rings<W> {
    fn new(geometry: Geometry) -> Rings<W> {
        let ways = geometry.ways();
        let of_way =
            |way| Neighbours { newer: W::of((way + ways - 1) % ways), older: W::of((way + 1) % ways) };
        let set: Vec<Neighbours<W>> = (0..ways).map(of_way).collect();
        Rings { latest: vec![W::of(0); geometry.sets()], neighbours: set.repeat(geometry.sets()) }
    }

    /// Makes a way of the set that begins at `first` the latest.
    #[inline]
    fn use_way(&mut self, set: usize, first: usize, way: usize) {
        let way = W::of(way);
        let latest = std::mem::replace(&mut self.latest[set], way);
        if latest == way {
            return;
        }
        let ring = &mut self.neighbours[first..];
        let oldest = ring[latest.number()].newer;
        if oldest != way {
            let Neighbours { newer, older } = ring[way.number()];
            ring[newer.number()].older = older;
            ring[older.number()].newer = newer;
            ring[way.number()] = Neighbours { newer: oldest, older: latest };
            ring[oldest.number()].older = way;
            ring[latest.number()].newer = way;
        }
    }

    /// The oldest way of the set that begins at `first`.
    #[inline]
    fn oldest(&self, set: usize, first: usize) -> usize {
        self.neighbours[first + self.latest[set].number()].newer.number()
    }
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
        let order = match geometry.ways() {
            ..=SCANNED_WAYS_MAX => Order::Times { stamps: vec![0; geometry.entries()], clock: 0 },
            ways if are_bytes(ways) => Order::Rings(Rings::new(geometry)),
            _ => Order::WideRings(Rings::new(geometry)),
        };
        Lru { ways: geometry.ways(), order }
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
        let first = set * self.ways;
        match &mut self.order {
            Order::Times { stamps, clock } => {
                *clock += 1;
                stamps[first + way] = *clock;
            }
            Order::Rings(rings) => rings.use_way(set, first, way),
            Order::WideRings(rings) => rings.use_way(set, first, way),
        }
    }

    #[inline]
    fn victim(&mut self, set: usize) -> usize {
        let first = set * self.ways;
        match &self.order {
            Order::Times { stamps, .. } => {
                let stamps = &stamps[first..][..self.ways];
                (0..self.ways).min_by_key(|&way| stamps[way]).expect("at least one way")
            }
            Order::Rings(rings) => rings.oldest(set, first),
            Order::WideRings(rings) => rings.oldest(set, first),
        }
    }

    #[inline]
    fn fill(&mut self, set: usize, way: usize) {
        self.hit(set, way);
    }

    /// The order of empty ways is not read.
    fn remove(&mut self, _set: usize, _way: usize) {}
}
