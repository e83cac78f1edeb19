//! Software prefetching for caches of memory.
//!
//! What passes the first level soon, and what walks will read, is known for a batch. If lines are far from the core in
//! the model, their sets are mostly far from the host's core too.

use crate::waiting_walks::{PassedAt, WaitingWalks};
use pagewalk_cache::{CacheAddress, DataSource, Hierarchy, Requester};

/// How far it has come, and whether it pays.
#[derive(Default)]
pub(crate) struct CacheLookahead {
    /// How many more lines are expected to be far; every near one makes it less.
    far: usize,
    /// The first line that is not prefetched.
    line: usize,
    /// The first entry that is not prefetched.
    entry: usize,
}

impl CacheLookahead {
    /// Lines, and entries, to prefetch ahead.
    const AHEAD: usize = 8;
    /// Lines that are expected to be far after one was.
    const FAR: usize = 8;

    #[inline(always)]
    pub fn note_near(&mut self, lines: usize) {
        self.far = self.far.saturating_sub(lines);
    }

    #[inline(always)]
    pub fn note(&mut self, served: DataSource) {
        match served {
            DataSource::Cache(0) => self.note_near(1),
            _ => self.far = Self::FAR,
        }
    }

    /// Prefetches sets for the lines and the walks after those of these numbers.
    #[inline(always)]
    pub fn prefetch(
        &mut self,
        hierarchy: &Hierarchy,
        (passed, next): (&[PassedAt], usize),
        (walks, walked): (&WaitingWalks, usize),
    ) {
        if self.far == 0 {
            return;
        }
        let end = passed.len().min(next + Self::AHEAD + 1);
        for PassedAt { line, .. } in &passed[self.line.clamp(next, end)..end] {
            hierarchy.prefetch(line.requester().unwrap_or(Requester::Load), line.address());
        }
        self.line = end;
        let entries = walks.all_entries();
        let read = walks.first_entry(walked);
        let end = entries.len().min(read + Self::AHEAD);
        for &entry in &entries[self.entry.clamp(read, end)..end] {
            hierarchy.prefetch(Requester::Walk, CacheAddress::same(entry));
        }
        self.entry = end;
    }
}
