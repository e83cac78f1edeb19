//! The scout: finds the pages of coming data references while the host waits for the current one.
//!
//! A miss reads its page through a chain of tables. If a program misses often and has many pages, the host's caches
//! hold little of them, and each link waits for the host's memory. The scout begins many chains at once. It changes no
//! count.

use crate::attribution::Observer;
use crate::pass::Pass;
use pagewalk_trace::Ref;
use std::ops::Range;

/// References that the scout looks ahead.
const AHEAD: usize = 16;
/// Misses at most so many references apart are frequent.
const CLOSE: usize = 8;

/// How far the scout has come in the batch.
#[derive(Default)]
pub(crate) struct Scout {
    /// The reference of the last miss.
    last: usize,
    /// The first reference that it has not seen.
    until: usize,
}

impl Scout {
    /// The references to look at now, at a miss of reference `index`.
    fn look(&mut self, index: usize) -> Option<Range<usize>> {
        // Wraps in a new batch.
        let is_frequent = index.wrapping_sub(self.last) <= CLOSE;
        self.last = index;
        let end = index + 1 + AHEAD;
        // A larger one is from the last batch, or from before a rollback.
        let from = if self.until <= end { self.until.max(index + 1) } else { index + 1 };
        let due = is_frequent && end - from >= AHEAD / 2;
        due.then(|| {
            self.until = end;
            from..end
        })
    }
}

impl<O: Observer> Pass<O> {
    /// Looks ahead, if data reference `index` is one of many that miss.
    #[inline(always)]
    pub(crate) fn scout(&mut self, refs: &[Ref], index: usize) {
        if self.store.has_many_pages()
            && let Some(Range { start, end }) = self.course.scout.look(index)
        {
            self.store.expect_misses(&refs[start.min(refs.len())..end.min(refs.len())]);
        }
    }
}
