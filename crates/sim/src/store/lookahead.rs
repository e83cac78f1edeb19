//! Software prefetching of records.
//!
//! Processors detect sequential reads, but prefetch no further than the end of a page.

/// Records to prefetch ahead: a few cache lines.
const DISTANCE: usize = 384;

/// Prefetches the record [`DISTANCE`] after the first of these, if the processor can.
#[inline(always)]
pub(crate) fn look_ahead<T>(records: &[T]) {
    let ahead = records.as_ptr().wrapping_add(DISTANCE);
    // SAFETY: a prefetch only loads into caches, and ignores unmapped addresses.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(ahead.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = ahead;
}
