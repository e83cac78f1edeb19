//! All arrays of a family of geometries in one pass.

use crate::feed::{Feed, ReferenceKinds, TouchSink};
use crate::invalidations::gone;
use crate::older_pages::{Histogram, OlderPages, PLACES};
use crate::recent_pages::{Entry, RecentPages, SET_COUNTS};
use pagewalk_trace::{Analysis, Batch, Event};
use pagewalk_units::{PAGE_SHIFT, PageSize, RefIndex, SpaceId, Vpn};
use std::ops::Range;

const NO_PAGE: u64 = u64::MAX;

/// The exact misses of every LRU array of a family from one pass: 13 set counts with up to 64 ways each, at five page
/// sizes, 4,160 arrays in total. Every array sees the whole stream as if all memory were mapped by pages of its size;
/// the low bits of the page number choose the set.
///
/// All set counts are processed together (see the modules `recent_pages` and `older_pages`), page sizes one after the
/// other, and only if the reference changes the current page of that size. Memory: 2 MiB for each page size, used as
/// sets fill, and 5 bytes for each page of the regions that are referenced.
///
/// ```
/// use pagewalk_reuse::{Family, ReferenceKinds};
/// use pagewalk_units::{PageSize, Vpn};
///
/// let mut family = Family::new(ReferenceKinds::Data);
/// for vpn in [0, 1, 2, 0, 1, 2] {
///     family.reference(Vpn(vpn));
/// }
/// assert_eq!(family.misses(PageSize::FOUR_KIB, 1, 2), Some(6));
/// assert_eq!(family.misses(PageSize::FOUR_KIB, 1, 3), Some(3));
/// assert_eq!(family.misses(PageSize::TWO_MIB, 1, 1), Some(1));
/// ```
pub struct Family {
    feed: Feed,
    arrays: Arrays,
}

struct Arrays {
    /// The two most recently touched 4 KiB pages, the most recent first.
    last: [u64; 2],
    /// How often those two pages alternated since the page sizes were last updated.
    turns: u64,
    sizes: [OneSize; Family::PAGE_SIZES.len()],
}

/// All arrays of one page size.
struct OneSize {
    /// log2 of the 4 KiB pages in a page.
    shift: u32,
    recent: RecentPages,
    older: OlderPages,
    depths: Box<Histogram>,
    /// References to the second most recently used page, by the number of low bits in which its number agrees with that
    /// of the most recent one.
    turns: [u64; u64::BITS as usize],
}

impl Family {
    /// The page sizes: 4K, 16K, 64K, 2M and 1G.
    pub const PAGE_SIZES: [PageSize; 5] =
        [PageSize::FOUR_KIB, size_of_shift(14), size_of_shift(16), PageSize::TWO_MIB, PageSize::ONE_GIB];
    /// Maximum number of sets of an array; set counts are powers of two.
    pub const SETS_MAX: u32 = 1 << (SET_COUNTS - 1);
    /// Maximum number of ways of an array.
    pub const WAYS_MAX: u32 = PLACES as u32;

    /// Empty arrays for these kinds of references.
    pub fn new(serves: ReferenceKinds) -> Family {
        let sizes = Family::PAGE_SIZES.map(OneSize::new);
        Family { feed: Feed::new(serves), arrays: Arrays { last: [NO_PAGE; 2], turns: 0, sizes } }
    }

    /// References a page, regardless of the kinds of references given to `new`.
    #[inline]
    pub fn reference(&mut self, vpn: Vpn) {
        self.feed.references += 1;
        self.arrays.touch(vpn.0);
    }

    /// Invalidates the translations of these 4 KiB pages, and of every larger page that contains one of them.
    pub fn invalidate(&mut self, vpns: Range<Vpn>) {
        self.arrays.invalidate(vpns);
    }

    /// References so far: one for each 4 KiB page that a reference touches, at every page size.
    pub fn references(&self) -> u64 {
        self.feed.references
    }

    /// Misses so far of the array of `sets` times `ways` pages of `size`; `None` if the family has no such array.
    pub fn misses(&self, size: PageSize, sets: u32, ways: u32) -> Option<u64> {
        let size = &self.arrays.sizes[Family::PAGE_SIZES.iter().position(|&s| s == size)?];
        let is_shape = sets.is_power_of_two() && sets <= Family::SETS_MAX;
        if !is_shape || !(1..=Family::WAYS_MAX).contains(&ways) {
            return None;
        }
        let bits = sets.ilog2() as usize;
        let deep: u64 = size.depths[ways as usize..].iter().map(|depths| depths[bits]).sum();
        // The second most recent page has depth 1 in its set if the most recent page is in the same set, else depth 0.
        let turns = if ways == 1 {
            size.turns[bits..].iter().sum::<u64>() + self.arrays.pending_turns(size, bits)
        } else {
            0
        };
        Some(deep + turns)
    }
}

const fn size_of_shift(shift: u32) -> PageSize {
    PageSize::from_shift(shift).expect("a page size")
}

impl Arrays {
    /// A touch of a page other than the last.
    #[inline(never)]
    fn change(&mut self, vpn: u64) {
        let [last, before] = self.last;
        self.last = [vpn, last];
        if vpn == before {
            self.turns += 1;
            return;
        }
        self.flush_turns([last, before]);
        for size in &mut self.sizes {
            size.touch(vpn >> size.shift);
        }
    }

    /// Passes the pending alternations of the last two pages on to the page sizes.
    fn flush_turns(&mut self, last: [u64; 2]) {
        if self.turns == 0 {
            return;
        }
        let turns = std::mem::take(&mut self.turns);
        for size in &mut self.sizes {
            size.take_turns(last.map(|vpn| vpn >> size.shift), turns);
        }
    }

    /// The pending alternations that `size` has not counted yet, if both pages are in the same of 2^`bits` sets.
    fn pending_turns(&self, size: &OneSize, bits: usize) -> u64 {
        let [last, before] = self.last.map(|vpn| vpn >> size.shift);
        if last != before && low_bits_alike(last, before) >= bits { self.turns } else { 0 }
    }

    fn invalidate(&mut self, vpns: Range<Vpn>) {
        if vpns.is_empty() {
            return;
        }
        self.flush_turns(self.last);
        self.last = [NO_PAGE; 2];
        for size in &mut self.sizes {
            size.invalidate(vpns.start.0 >> size.shift..((vpns.end.0 - 1) >> size.shift) + 1);
        }
    }
}

impl TouchSink for Arrays {
    #[inline(always)]
    fn touch(&mut self, vpn: u64) {
        // Otherwise the page is on top of all its stacks.
        if vpn != self.last[0] {
            self.change(vpn);
        }
    }
}

impl OneSize {
    fn new(size: PageSize) -> OneSize {
        OneSize {
            shift: size.shift() - PAGE_SHIFT,
            recent: RecentPages::new(),
            older: OlderPages::new(),
            depths: Box::new([[0; 16]; 256]),
            turns: [0; u64::BITS as usize],
        }
    }

    #[inline(always)]
    fn touch(&mut self, page: u64) {
        if self.recent.is_first(page) {
            return;
        }
        if let Some(first) = self.recent.exchange(page) {
            self.turns[low_bits_alike(first, page)] += 1;
            return;
        }
        let walk = self.recent.refer(page);
        if walk.found {
            walk.depths.each(|bits, depth| self.depths[usize::from(depth)][bits % 16] += 1);
        } else {
            self.older.take(page, &walk, &mut self.depths);
        }
        if walk.sunk != Entry::VACANT {
            self.older.put(walk.sunk);
        }
    }

    /// Counts alternations of two pages, the most recent first; does nothing if both are the same page of this size.
    #[inline(always)]
    fn take_turns(&mut self, [last, before]: [u64; 2], turns: u64) {
        if last != before {
            self.turns[low_bits_alike(last, before)] += turns;
            self.recent.exchange(last);
        }
    }

    fn invalidate(&mut self, pages: Range<u64>) {
        self.older.remove(pages, |page| self.recent.remove(page));
    }
}

/// The number of low bits in which two different numbers agree.
#[inline(always)]
fn low_bits_alike(number: u64, other: u64) -> usize {
    // The remainder changes nothing; it tells the compiler that the result is below 64.
    (number ^ other).trailing_zeros() as usize % u64::BITS as usize
}

impl Analysis for Family {
    fn on_batch(&mut self, batch: &Batch<'_>) {
        self.feed.run(batch, &mut self.arrays);
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
