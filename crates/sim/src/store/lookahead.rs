//! Asking for memory before it is read.
//!
//! Processors notice that records are read in a row, but look no further than the end of a page.

/// How many records ahead of the one that is read: some lines of a cache.
const DISTANCE: usize = 384;

/// Has the processor load what lies [`DISTANCE`] records after the first of these, if it can.
#[inline(always)]
pub(crate) fn look_ahead<T>(records: &[T]) {
    let ahead = records.as_ptr().wrapping_add(DISTANCE);
    // SAFETY: a prefetch loads into the caches only, at any address: those that are not mapped are passed over.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(ahead.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = ahead;
}
