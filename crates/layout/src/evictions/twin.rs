//! A fully associative LRU array, seen from its pages.
//!
//! Each page has a time of last use, which hits update without telling the twin. The victim is the resident page with
//! the earliest time, found through a heap of times at insertion. A time in the heap is never later than its page's. So
//! if the least of the heap equals its page's present time, that page was used before all others; otherwise it is
//! reinserted with the present time, and the next is examined.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The twin's data of a page, besides what hits write.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TwinPage {
    /// Time of the last reference, if resident.
    pub last: u64,
    /// References by side.
    pub references: [u64; 2],
    /// Whether the twin holds it.
    pub resident: bool,
    /// Whether it is in the heap, perhaps from an earlier stay.
    queued: bool,
}

/// The array.
#[derive(Clone, Debug)]
pub(super) struct Twin {
    entries: usize,
    residents: usize,
    /// Times and pages.
    oldest: BinaryHeap<Reverse<(u64, u32)>>,
}

impl Twin {
    pub fn new(entries: usize) -> Twin {
        Twin { entries, residents: 0, oldest: BinaryHeap::new() }
    }

    /// Inserts `page`, which is not resident and is used now, evicting another if the twin is full.
    pub fn take(&mut self, page: u32, uses: &mut [TwinPage]) {
        if self.residents == self.entries {
            self.evict(uses);
        }
        self.residents += 1;
        let taken = &mut uses[page as usize];
        taken.resident = true;
        if !std::mem::replace(&mut taken.queued, true) {
            self.oldest.push(Reverse((taken.last, page)));
        }
    }

    /// Removes `page` if it is resident.
    pub fn remove(&mut self, page: u32, uses: &mut [TwinPage]) {
        self.residents -= usize::from(std::mem::take(&mut uses[page as usize].resident));
    }

    fn evict(&mut self, uses: &mut [TwinPage]) {
        while let Some(mut least) = self.oldest.peek_mut() {
            let Reverse((time, page)) = *least;
            let of = &mut uses[page as usize];
            if of.resident && of.last != time {
                *least = Reverse((of.last, page));
                continue;
            }
            std::collections::binary_heap::PeekMut::pop(least);
            of.queued = false;
            if std::mem::take(&mut of.resident) {
                self.residents -= 1;
                return;
            }
        }
    }
}
