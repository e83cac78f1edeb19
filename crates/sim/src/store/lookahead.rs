//! Software prefetching of records.
//!
//! Processors detect sequential reads, but prefetch no further than the end of a page.

use pagewalk_setassoc::prefetch;

/// Records to prefetch ahead: a few cache lines.
const DISTANCE: usize = 384;

/// Prefetches the record [`DISTANCE`] after the first of these.
#[inline(always)]
pub(crate) fn look_ahead<T>(records: &[T]) {
    prefetch(records.as_ptr().wrapping_add(DISTANCE));
}
