//! The straightforward way, with which the family is compared in speed and in misses: every reference is looked up in
//! every design.

use pagewalk_reuse::{Family, gone};
use pagewalk_trace::{Analysis, Batch, Event};
use pagewalk_units::{PAGE_SHIFT, PageSize, RefIndex, Vpn};

/// All designs of the family, serving data.
pub struct Plain {
    pub arrays: Vec<Lru>,
}

/// One array: each set's pages, used last first.
pub struct Lru {
    pub size: PageSize,
    pub sets: u32,
    pub ways: u32,
    pub misses: u64,
    held: Vec<Vec<u64>>,
}

impl Plain {
    pub fn new() -> Plain {
        let shapes = Family::PAGE_SIZES.into_iter().flat_map(|size| {
            let set_counts = (0..=Family::SETS_MAX.ilog2()).map(|bits| 1 << bits);
            set_counts.flat_map(move |sets| (1..=Family::WAYS_MAX).map(move |ways| (size, sets, ways)))
        });
        let array =
            |(size, sets, ways)| Lru { size, sets, ways, misses: 0, held: vec![vec![]; sets as usize] };
        Plain { arrays: shapes.map(array).collect() }
    }
}

impl Lru {
    fn refer(&mut self, page: u64) {
        let set = &mut self.held[page as usize % self.sets as usize];
        match set.iter().position(|&held| held == page) {
            Some(at) => set[..=at].rotate_right(1),
            None => {
                self.misses += 1;
                set.truncate(self.ways as usize - 1);
                set.insert(0, page);
            }
        }
    }

    fn forget(&mut self, gone: std::ops::Range<u64>) {
        self.held.iter_mut().for_each(|set| set.retain(|page| !gone.contains(page)));
    }
}

/// All data pages in order of last use, searched from the top: the straightforward way to compute stack distances.
/// Invalidated pages leave holes, which later pages fill.
#[derive(Default)]
pub struct PlainStack {
    order: Vec<Option<u64>>,
    /// References by distance.
    pub histogram: Vec<u64>,
    /// References to pages that were not there.
    pub absent: u64,
}

impl PlainStack {
    fn refer(&mut self, page: u64) {
        let place = self.order.iter().position(|&held| held == Some(page));
        let hole = self.order[..place.unwrap_or(self.order.len())].iter().position(Option::is_none);
        match place {
            Some(distance) => {
                if self.histogram.len() <= distance {
                    self.histogram.resize(distance + 1, 0);
                }
                self.histogram[distance] += 1;
                self.order[distance] = None;
            }
            None => {
                self.absent += 1;
                if hole.is_none() {
                    self.order.push(None);
                }
            }
        }
        let end = hole.or(place).unwrap_or(self.order.len() - 1);
        self.order[..=end].rotate_right(1);
        self.order[0] = Some(page);
    }
}

impl Analysis for PlainStack {
    fn on_batch(&mut self, batch: &Batch<'_>) {
        for r in batch.refs {
            (r.vpn().0..=r.last_vpn().0).for_each(|vpn| self.refer(vpn));
        }
    }

    fn on_event(&mut self, _at: RefIndex, event: &Event) {
        for vpns in gone(event) {
            let is_gone = |held: &Option<u64>| held.is_some_and(|vpn| vpns.contains(&Vpn(vpn)));
            self.order.iter_mut().filter(|held| is_gone(held)).for_each(|held| *held = None);
        }
    }
}

impl Analysis for Plain {
    fn on_batch(&mut self, batch: &Batch<'_>) {
        // Process the whole batch for one array after the other, so that the array stays in the caches.
        for array in &mut self.arrays {
            for r in batch.refs {
                for vpn in r.vpn().0..=r.last_vpn().0 {
                    array.refer(vpn >> (array.size.shift() - PAGE_SHIFT));
                }
            }
        }
    }

    fn on_event(&mut self, _at: RefIndex, event: &Event) {
        for vpns in gone(event).into_iter().filter(|vpns| !vpns.is_empty()) {
            for array in &mut self.arrays {
                let shift = array.size.shift() - PAGE_SHIFT;
                array.forget(vpns.start.0 >> shift..((vpns.end.0 - 1) >> shift) + 1);
            }
        }
    }
}
