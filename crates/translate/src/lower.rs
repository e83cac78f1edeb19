//! TLB levels below the first.
//!
//! Level 2 is touched only on a level-1 miss, level 3 only on a level-2 miss; all arrays of a level that
//! serve the reference's kind are looked up at once. A hit fills every level above it; a walk fills
//! every level that can hold the page (inclusive fill, without back-invalidation).

use crate::{KindSet, MachineSpec, TlbSpec};
use pagewalk_setassoc::SetArray;
use pagewalk_units::{Kind, PageSize, VirtAddr};

/// Lookups and hits of one array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArrayCounts {
    /// References that probed it.
    pub lookups: u64,
    /// References that found their page in it.
    pub hits: u64,
}

/// What became of a first-level miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filled {
    /// The page was found at this level (2 or more).
    Level(u8),
    /// No level had it: a walk is due.
    Walk,
}

/// The arrays of levels 2 and up.
#[derive(Clone, Debug)]
pub struct LowerLevels {
    /// By level, 2 first.
    arrays: Vec<Lower>,
    last_level: u8,
}

#[derive(Clone, Debug)]
struct Lower {
    index: usize,
    level: u8,
    serves: KindSet,
    /// Bit n: holds pages of 2^n bytes.
    sizes: u64,
    array: SetArray,
    counts: ArrayCounts,
}

impl Lower {
    fn holds(&self, size: PageSize) -> bool {
        self.sizes >> size.shift() & 1 == 1
    }
}

/// The key of a page in arrays that mix sizes.
pub fn page_key(number: u64, size: PageSize) -> u64 {
    number << 6 | u64::from(size.shift())
}

impl LowerLevels {
    /// Empty arrays.
    pub fn new(machine: &MachineSpec) -> LowerLevels {
        let lower = |(index, spec): (usize, &TlbSpec)| Lower {
            index,
            level: spec.level,
            serves: spec.serves,
            sizes: spec.page_sizes.iter().fold(0, |sizes, size| sizes | 1 << size.shift()),
            array: spec.array(),
            counts: ArrayCounts::default(),
        };
        let below = machine.tlbs.iter().enumerate().filter(|(_, tlb)| tlb.level > 1);
        let mut arrays: Vec<Lower> = below.map(lower).collect();
        arrays.sort_by_key(|lower| lower.level);
        LowerLevels { arrays, last_level: machine.last_level() }
    }

    /// Serves a first-level miss: looks up level by level, then fills as a hit or a walk does.
    pub fn serve(&mut self, kind: Kind, address: VirtAddr, size: PageSize) -> Filled {
        let number = size.number(address);
        let outcome = self.look_up(kind, number, size);
        let filled_above = match outcome {
            Filled::Level(2) => return outcome,
            Filled::Level(level) => level,
            Filled::Walk => self.last_level + 1,
        };
        for lower in &mut self.arrays {
            if lower.level < filled_above && lower.holds(size) && lower.serves.has(kind) {
                lower.array.fill(number, page_key(number, size));
            }
        }
        outcome
    }

    fn look_up(&mut self, kind: Kind, number: u64, size: PageSize) -> Filled {
        let key = page_key(number, size);
        let mut found = None;
        for lower in &mut self.arrays {
            if found.is_some_and(|level| lower.level > level) {
                break;
            }
            if !lower.serves.has(kind) {
                continue;
            }
            lower.counts.lookups += 1;
            if lower.holds(size) && lower.array.touch(number, key) {
                lower.counts.hits += 1;
                found = Some(lower.level);
            }
        }
        found.map_or(Filled::Walk, Filled::Level)
    }

    /// Drops the page with this number at `size` from every array.
    pub fn invalidate(&mut self, number: u64, size: PageSize) {
        for lower in &mut self.arrays {
            if lower.holds(size) {
                lower.array.remove(number, page_key(number, size));
            }
        }
    }

    /// Index in the machine file and counts of each array.
    pub fn counts(&self) -> impl Iterator<Item = (usize, ArrayCounts)> + '_ {
        self.arrays.iter().map(|lower| (lower.index, lower.counts))
    }
}
