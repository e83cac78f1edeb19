//! Software prefetching of records and pages.

use crate::recent_ids::NOBODY;
use crate::store::PageStore;
use pagewalk_setassoc::prefetch;
use pagewalk_trace::Ref;

/// Records to prefetch ahead: a few cache lines.
const DISTANCE: usize = 384;

/// Prefetches the record [`DISTANCE`] after the first of these. Processors detect sequential reads, but prefetch no
/// further than the end of a page.
#[inline(always)]
pub(crate) fn look_ahead<T>(records: &[T]) {
    prefetch(records.as_ptr().wrapping_add(DISTANCE));
}

impl PageStore {
    /// Whether there are more pages than the host's second-level cache can hold, so that it pays to prefetch.
    #[inline(always)]
    pub fn has_many_pages(&self) -> bool {
        // In debug builds 16 are many, so that tests come here too.
        self.pages.len() >= if cfg!(debug_assertions) { 16 } else { 4096 }
    }

    /// Prefetches a page and its tally.
    #[inline(always)]
    pub fn prefetch_page(&self, page: u32) {
        prefetch(self.pages.as_ptr().wrapping_add(page as usize));
        prefetch(self.tallies.as_ptr().wrapping_add(page as usize));
    }

    /// Finds the pages of these references that are likely to miss, and prefetches what the misses read.
    #[inline(never)]
    pub fn expect_misses(&mut self, refs: &[Ref]) {
        for r in refs {
            let vpn = self.paging.base().number(r.address());
            if self.front_holds_for_loads(vpn) || self.recent.candidate(vpn) != NOBODY {
                continue;
            }
            if let Some(page) = self.find(vpn) {
                self.recent.set(vpn, page);
                self.prefetch_page(page);
            }
        }
    }
}
