//! Software prefetching for caches of memory.
//!
//! What passes the first level soon, and what walks will read, is known for a batch. If lines are far from the core in
//! the model, their sets are mostly far from the host's core too.

use crate::caches::waiting_walks::{PassedAt, WaitingWalks};
use pagewalk_cache::{CacheAddress, DataSource, Hierarchy, Requester};

/// What it has prefetched, and how long it still pays.
#[derive(Default)]
pub(crate) struct CacheLookahead {
    /// Lines to come that are expected to be far.
    far: usize,
    /// The first line that it has not prefetched.
    line: usize,
    /// The first entry that it has not prefetched.
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
            // Those of the nearest cache are near.
            DataSource::Cache(0) => self.note_near(1),
            _ => self.far = Self::FAR,
        }
    }

    /// Prefetches the sets of lines from number `next` on, and of entries from walk `walked` on.
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
            // A line that leaves the first level is mostly in the next.
            if let Some(requester) = line.requester() {
                hierarchy.prefetch(requester, line.address());
            }
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
