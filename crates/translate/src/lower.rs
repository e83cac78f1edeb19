//! TLB levels below the first.
//!
//! Level 2 is touched only on a level-1 miss, level 3 only on a level-2 miss; all arrays of a level that
//! serve the reference's kind are looked up at once. A hit fills every level above it; a walk fills
//! every level that can hold the page (inclusive fill, without back-invalidation).

use crate::{MachineSpec, TlbSpec};
use pagewalk_setassoc::LruArray;
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
    arrays: Vec<Lower>,
    last_level: u8,
}

#[derive(Clone, Debug)]
struct Lower {
    index: usize,
    spec: TlbSpec,
    array: LruArray,
    counts: ArrayCounts,
}

impl Lower {
    fn holds(&self, kind: Kind, size: PageSize) -> bool {
        self.spec.serves.has(kind) && self.spec.holds(size)
    }
}

/// The key of a page in arrays that mix sizes.
fn key(number: u64, size: PageSize) -> u64 {
    number << 6 | u64::from(size.shift())
}

impl LowerLevels {
    /// Empty arrays; `doublings` scales each (see [`pagewalk_setassoc::Geometry::scaled`]).
    pub fn new(machine: &MachineSpec, doublings: i32) -> LowerLevels {
        let lower = |(index, spec): (usize, &TlbSpec)| Lower {
            index,
            spec: spec.clone(),
            array: LruArray::new(spec.geometry.scaled(doublings)),
            counts: ArrayCounts::default(),
        };
        let below = machine.tlbs.iter().enumerate().filter(|(_, tlb)| tlb.level > 1);
        LowerLevels { arrays: below.map(lower).collect(), last_level: machine.last_level() }
    }

    /// Serves a first-level miss: looks up level by level, then fills as a hit or a walk does.
    pub fn serve(&mut self, kind: Kind, address: VirtAddr, size: PageSize) -> Filled {
        let number = size.number(address);
        let outcome = self.look_up(kind, number, size);
        let filled_above = match outcome {
            Filled::Level(level) => level,
            Filled::Walk => self.last_level + 1,
        };
        for lower in &mut self.arrays {
            if lower.spec.level < filled_above && lower.holds(kind, size) {
                lower.array.fill(number, key(number, size));
            }
        }
        outcome
    }

    fn look_up(&mut self, kind: Kind, number: u64, size: PageSize) -> Filled {
        for level in 2..=self.last_level {
            let mut hit = false;
            for lower in &mut self.arrays {
                if lower.spec.level != level || !lower.spec.serves.has(kind) {
                    continue;
                }
                lower.counts.lookups += 1;
                if lower.spec.holds(size) && lower.array.touch(number, key(number, size)) {
                    lower.counts.hits += 1;
                    hit = true;
                }
            }
            if hit {
                return Filled::Level(level);
            }
        }
        Filled::Walk
    }

    /// Drops the page with this number at `size` from every array.
    pub fn invalidate(&mut self, number: u64, size: PageSize) {
        for lower in &mut self.arrays {
            if lower.spec.holds(size) {
                lower.array.remove(number, key(number, size));
            }
        }
    }

    /// Index in the machine file and counts of each array.
    pub fn counts(&self) -> impl Iterator<Item = (usize, ArrayCounts)> + '_ {
        self.arrays.iter().map(|lower| (lower.index, lower.counts))
    }

    /// Entries of the last level's arrays that can hold pages of `size`, and whether any can.
    pub fn last_level_entries(&self, size: PageSize) -> usize {
        let last = self.arrays.iter().filter(|l| l.spec.level == self.last_level && l.spec.holds(size));
        last.map(|lower| lower.array.geometry().entries()).sum()
    }
}
