//! Stack distances over 4 KiB pages.

use crate::feed::{Feed, ReferenceKinds, TouchSink};
use crate::invalidations::gone;
use crate::pages::Pages;
use crate::stack::{PLACES, Stack};
use crate::timeline::Timeline;
use pagewalk_trace::{Analysis, Batch, Event};
use pagewalk_units::{RefIndex, SpaceId, Vpn};
use std::ops::Range;

const NO_PAGE: u64 = u64::MAX;

/// Exact LRU stack distances of references.
///
/// The *distance* of a reference is the number of places above its page in the LRU stack: the other pages referenced
/// since the last reference to this page, plus the unfilled holes that invalidated pages left among them. A fully
/// associative LRU array hits if it has more entries than the distance, so the distances give the miss-ratio curve.
///
/// Memory: 4 bytes for each page of the regions that are referenced, and 12 to 20 for each page seen.
///
/// ```
/// use pagewalk_reuse::{ReferenceKinds, StackDistances};
/// use pagewalk_units::Vpn;
///
/// let mut distances = StackDistances::new(ReferenceKinds::Data);
/// for vpn in [0, 1, 2, 2, 0] {
///     distances.reference(Vpn(vpn));
/// }
/// assert_eq!(distances.histogram(), [1, 0, 1]);
/// assert_eq!(distances.cold(), 3);
/// assert_eq!((distances.misses_with(2), distances.misses_with(3)), (4, 3));
/// ```
pub struct StackDistances {
    feed: Feed,
    order: Order,
}

/// All pages in order of last use: the top places in a small stack, all older pages in a timeline.
struct Order {
    /// The most recently touched page.
    last: u64,
    pages: Pages,
    top: Stack,
    below: Timeline,
    /// References by distance, without those of distance 0.
    distances: Vec<u64>,
    cold: u64,
    taken_away: u64,
}

impl StackDistances {
    /// Counts distances for these kinds of references; nothing is referenced yet.
    pub fn new(serves: ReferenceKinds) -> StackDistances {
        let order = Order {
            last: NO_PAGE,
            pages: Pages::new(),
            top: Stack::new(),
            below: Timeline::new(),
            distances: vec![0; PLACES],
            cold: 0,
            taken_away: 0,
        };
        StackDistances { feed: Feed::new(serves), order }
    }

    /// References a page, regardless of the kinds of references given to `new`.
    #[inline]
    pub fn reference(&mut self, vpn: Vpn) {
        self.feed.references += 1;
        self.order.touch(vpn.0);
    }

    /// Invalidates the translations of these pages.
    pub fn invalidate(&mut self, vpns: Range<Vpn>) {
        self.order.invalidate(vpns);
    }

    /// References so far: one for each page that a reference touches.
    pub fn references(&self) -> u64 {
        self.feed.references
    }

    /// References to pages never seen before: they miss in every array.
    pub fn cold(&self) -> u64 {
        self.order.cold
    }

    /// References to pages whose translation was invalidated after their last reference: they miss in every array, too.
    pub fn taken_away(&self) -> u64 {
        self.order.taken_away
    }

    /// References by distance, up to the largest seen.
    pub fn histogram(&self) -> Vec<u64> {
        let mut histogram = self.order.distances.clone();
        histogram[0] = self.references() - self.misses_with(1);
        histogram.truncate(histogram.iter().rposition(|&n| n > 0).map_or(0, |last| last + 1));
        histogram
    }

    /// Misses of a fully associative LRU array of `entries` pages: one point of the miss-ratio curve. Each call sums
    /// over the histogram; to compute the whole curve, accumulate the histogram from its end instead.
    pub fn misses_with(&self, entries: usize) -> u64 {
        if entries == 0 {
            return self.references();
        }
        self.cold() + self.taken_away() + self.order.distances.iter().skip(entries).sum::<u64>()
    }
}

impl Order {
    /// A touch of a page other than the last.
    #[inline(never)]
    fn change(&mut self, vpn: u64) {
        self.last = vpn;
        let seen = self.pages.len();
        let page = self.pages.number(vpn);
        let found = self.top.refer(page);
        if found.depth < PLACES {
            self.distances[found.depth] += u64::from(found.depth > 0);
        } else if let Some(depth) = self.below.refer(page, found.sunk) {
            let distance = PLACES + depth;
            if self.distances.len() <= distance {
                self.distances.resize(distance + 1, 0);
            }
            self.distances[distance] += 1;
        } else if seen < self.pages.len() {
            self.cold += 1;
        } else {
            self.taken_away += 1;
        }
    }

    fn invalidate(&mut self, vpns: Range<Vpn>) {
        if vpns.is_empty() {
            return;
        }
        self.last = NO_PAGE;
        self.pages.seen(vpns.start.0..vpns.end.0, |_, page| {
            if !self.top.remove(page) {
                self.below.remove(page);
            }
        });
    }
}

impl TouchSink for Order {
    #[inline(always)]
    fn touch(&mut self, vpn: u64) {
        if vpn != self.last {
            self.change(vpn);
        }
    }
}

impl Analysis for StackDistances {
    fn on_batch(&mut self, batch: &Batch<'_>) {
        self.feed.run(batch, &mut self.order);
    }

    fn on_event(&mut self, _at: RefIndex, event: &Event) {
        for vpns in gone(event) {
            let own = self.feed.own(vpns.start.0..vpns.end.0);
            self.invalidate(Vpn(own.start)..Vpn(own.end));
        }
    }

    fn on_turn(&mut self, process: SpaceId) {
        self.feed.switch_to(process);
    }
}
