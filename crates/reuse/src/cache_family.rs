//! All caches of a family of geometries in one pass, with the kinds of their misses.

use crate::feed::{Feed, ReferenceKinds, TouchSink};
use crate::line_sets::{LineSets, SET_COUNTS, WAYS};
use pagewalk_trace::{Analysis, Batch};
use pagewalk_units::{SpaceId, VirtAddr};

/// log2 of the bytes of the smallest line.
const LINE_SHIFT: u32 = 5;

/// The exact misses of every LRU cache of a family from one pass: 13 set counts with up to 32 ways each, for lines of
/// three sizes, 1,248 caches in total. The low bits of the line's number choose the set.
///
/// Addresses are virtual, and every reference, loads and stores alike, brings its lines into the cache. Nothing removes
/// a line but another one: what a program unmaps stays, as in a cache of physical addresses.
///
/// Memory: 1 MiB for each line size, used as sets fill, and 20 to 30 bytes for each line touched.
///
/// ```
/// use pagewalk_reuse::{CacheFamily, MissKinds, ReferenceKinds};
/// use pagewalk_units::VirtAddr;
///
/// let mut family = CacheFamily::new(ReferenceKinds::Data);
/// for address in [0, 128, 0, 128] {
///     family.reference(VirtAddr(address));
/// }
/// let misses = |sets, ways| family.misses(64, sets, ways).unwrap();
/// assert_eq!(misses(2, 1), MissKinds { compulsory: 2, capacity: 0, conflict: 2 });
/// assert_eq!(misses(1, 2).all(), 2);
/// ```
pub struct CacheFamily {
    feed: Feed<LINE_SHIFT>,
    lines: Lines,
}

/// All caches.
struct Lines {
    /// The line of the smallest size that was touched last.
    last: u64,
    /// For each line size log2 of the smallest lines in a line, and its caches.
    sizes: Vec<(u32, LineSets)>,
}

/// Why a cache missed (Hill and Smith, "Evaluating associativity in CPU caches", IEEE Transactions on Computers
/// 38 (12), 1989, section 2).
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

    /// Empty caches of all line sizes for these kinds of references.
    pub fn new(serves: ReferenceKinds) -> CacheFamily {
        CacheFamily::with_lines(serves, &CacheFamily::LINE_BYTES)
    }

    /// The same with lines of these sizes only; sizes that the family does not have are left out.
    pub fn with_lines(serves: ReferenceKinds, line_bytes: &[u32]) -> CacheFamily {
        let chosen = CacheFamily::LINE_BYTES.into_iter().filter(|bytes| line_bytes.contains(bytes));
        let sizes = chosen.map(|bytes| (bytes.ilog2() - LINE_SHIFT, LineSets::new())).collect();
        CacheFamily { feed: Feed::new(serves), lines: Lines { last: u64::MAX, sizes } }
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
        let sizes = &mut self.lines.sizes.iter();
        let (_, size) = sizes.find(|(shift, _)| line_bytes == 1 << (LINE_SHIFT + shift))?;
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
        for (shift, size) in &mut self.sizes {
            size.touch(line >> *shift);
        }
    }
}

impl Analysis for CacheFamily {
    fn on_batch(&mut self, batch: &Batch<'_>) {
        self.feed.run(batch, &mut self.lines);
    }

    fn on_turn(&mut self, process: SpaceId) {
        self.feed.switch_to(process);
    }
}
