//! All caches of a family of geometries in one pass, with the kinds of their misses.

use crate::feed::{Feed, ReferenceKinds, TouchSink};
use crate::line_sets::{LineSets, SET_COUNTS, WAYS};
use pagewalk_trace::{Analysis, Batch, Event};
use pagewalk_units::{RefIndex, VirtAddr};

/// log2 of the bytes of the smallest line.
const LINE_SHIFT: u32 = 5;

/// The exact misses of every LRU cache of a family from one pass: 13 set counts with up to 32 ways each, for lines of
/// three sizes, 1,248 caches in total. The low bits of the line's number choose the set.
///
/// Addresses are virtual, and every reference, loads and stores alike, brings its lines into the cache. Nothing removes
/// a line but another one: what a program unmaps stays, as in a cache of physical addresses.
pub struct CacheFamily {
    feed: Feed<LINE_SHIFT>,
    lines: Lines,
}

/// All caches, by line size.
struct Lines {
    /// The line of the smallest size that was touched last.
    last: u64,
    sizes: [LineSets; CacheFamily::LINE_BYTES.len()],
}

/// Why a cache missed (Hill and Smith, "Evaluating associativity in CPU caches", IEEE Transactions on Computers 38 (12),
/// 1989, section 2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MissKinds {
    /// First touches of a line.
    pub compulsory: u64,
    /// Misses of a fully associative LRU cache of as many lines, but for the compulsory ones.
    pub capacity: u64,
    /// The other misses. Negative if the sets keep lines that the fully associative cache replaces.
    pub conflict: i64,
}

impl CacheFamily {
    /// The line sizes in bytes.
    pub const LINE_BYTES: [u32; 3] = [32, 64, 128];
    /// Maximum number of sets of a cache; set counts are powers of two.
    pub const SETS_MAX: u32 = 1 << (SET_COUNTS - 1);
    /// Maximum number of ways of a cache.
    pub const WAYS_MAX: u32 = WAYS as u32;

    /// Empty caches for these kinds of references.
    pub fn new(serves: ReferenceKinds) -> CacheFamily {
        let lines = Lines { last: u64::MAX, sizes: CacheFamily::LINE_BYTES.map(|_| LineSets::new()) };
        CacheFamily { feed: Feed::new(serves), lines }
    }

    /// References the line of an address, regardless of the kinds of references given to `new`.
    pub fn reference(&mut self, address: VirtAddr) {
        self.feed.references += 1;
        self.lines.touch(address.0 >> LINE_SHIFT);
    }

    /// References so far: one for each line of 32 bytes that a reference touches, at every line size.
    pub fn references(&self) -> u64 {
        self.feed.references
    }

    /// Misses so far of the cache of `sets` times `ways` lines, by kind; `None` if the family has no such cache.
    pub fn misses(&self, line_bytes: u32, sets: u32, ways: u32) -> Option<MissKinds> {
        let size =
            &self.lines.sizes[CacheFamily::LINE_BYTES.iter().position(|&bytes| bytes == line_bytes)?];
        let is_shape = sets.is_power_of_two() && sets <= CacheFamily::SETS_MAX;
        if !is_shape || !(1..=CacheFamily::WAYS_MAX).contains(&ways) {
            return None;
        }
        let misses = size.misses(sets.ilog2() as usize, ways as usize);
        let full = size.full_misses(sets as usize * ways as usize);
        Some(MissKinds {
            compulsory: size.cold(),
            capacity: full - size.cold(),
            conflict: misses as i64 - full as i64,
        })
    }
}

impl MissKinds {
    /// All misses.
    pub fn all(&self) -> u64 {
        (self.compulsory + self.capacity).strict_add_signed(self.conflict)
    }
}

impl TouchSink for Lines {
    #[inline(always)]
    fn touch(&mut self, line: u64) {
        // Otherwise the line is on top of all its stacks.
        if line != self.last {
            self.change(line);
        }
    }
}

impl Lines {
    /// A touch of a line other than the last.
    #[inline(never)]
    fn change(&mut self, line: u64) {
        self.last = line;
        for (shift, size) in self.sizes.iter_mut().enumerate() {
            size.touch(line >> shift);
        }
    }
}

impl Analysis for CacheFamily {
    fn on_batch(&mut self, batch: &Batch<'_>) {
        self.feed.run(batch, &mut self.lines);
    }

    fn on_event(&mut self, _at: RefIndex, _event: &Event) {}
}
