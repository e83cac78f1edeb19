//! The lines of a cache whose next hit changes only counts.
//!
//! That holds for the line used last in a set, if the replacement policy need not see repeated hits. Of the lines with
//! equal low bits, the one used last is kept: it is that of its set too, as sets are chosen by those bits and maybe
//! more.

use crate::stamps::StampedSets;
use crate::{CacheOrganisation, CacheSpec, Requester};
use pagewalk_setassoc::RelevantHits;

/// Lines that are kept. Caches of fewer sets have fewer.
const LINES: usize = 64;

/// Marks an empty place: no line has this number.
const NONE: u64 = u64::MAX;

/// Set in a place if the line is known to be dirty, so that a store changes only counts. Lines have smaller numbers.
const DIRTY: u64 = 1 << 63;

/// What a repeated access needs to know of its line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Need {
    ignored: u64,
    wanted: u64,
}

impl Need {
    /// `soils`: the access is a store that ends in the cache.
    pub fn of(soils: bool) -> Need {
        if soils { Need { ignored: 0, wanted: DIRTY } } else { Need { ignored: DIRTY, wanted: 0 } }
    }

    /// Whether the access is such a store.
    pub fn soils(self) -> bool {
        self.wanted != 0
    }
}

#[derive(Clone, Debug)]
pub(crate) struct RecentLines {
    lines: [u64; LINES],
    mask: u64,
    /// Whether the cache has such lines.
    pub is_used: bool,
    /// By requester: hits that [`Cache::repeats`](crate::cache::Cache::repeats) took, and repeated fetches. They are
    /// not counted elsewhere.
    pub repeats: [u64; Requester::ALL.len()],
}

impl RecentLines {
    /// None yet.
    pub fn new(spec: &CacheSpec) -> RecentLines {
        RecentLines {
            lines: [NONE; LINES],
            repeats: Default::default(),
            mask: spec.geometry.sets().min(LINES) as u64 - 1,
            is_used: !StampedSets::suit(spec)
                && !matches!(spec.organisation, CacheOrganisation::Column { .. })
                && spec.replacement.relevant_hits() != RelevantHits::Each,
        }
    }

    #[inline(always)]
    fn place(&self, line: u64) -> usize {
        (line & self.mask) as usize % LINES
    }

    /// Whether a line is here, as an access needs it.
    #[inline(always)]
    pub fn has(&self, line: u64, need: Need) -> bool {
        self.lines[self.place(line)] & !need.ignored == line | need.wanted
    }

    /// Notes the use of a line, which the access `soils` or not.
    #[inline(always)]
    pub fn note(&mut self, line: u64, soils: bool) {
        if self.is_used {
            let place = self.place(line);
            self.lines[place] = if soils { line | DIRTY } else { line };
        }
    }

    /// Notes that any line may have left.
    pub fn forget_all(&mut self) {
        self.lines.fill(NONE);
    }

    /// Notes that a line leaves.
    #[inline(always)]
    pub fn forget(&mut self, line: u64) {
        if self.has(line, Need::of(false)) {
            let place = self.place(line);
            self.lines[place] = NONE;
        }
    }
}
