//! Software prefetching into the host's caches.

/// Asks the host for the memory at `place`, if it can prefetch; the place need not be valid.
#[inline(always)]
pub fn prefetch<T>(place: *const T) {
    // SAFETY: a prefetch only loads into caches, and ignores unmapped addresses.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(place.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
