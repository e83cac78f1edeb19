//! Ways in few bytes: sets that a miss reads should take few lines of the host's caches.

/// The number of a way, or none.
pub(crate) trait Way: Copy + PartialEq {
    /// No way.
    const NONE: Self;

    fn of(number: usize) -> Self;
    fn number(self) -> usize;
}

/// Whether bytes can number so many ways, and none.
pub(crate) fn are_bytes(ways: usize) -> bool {
    ways <= u8::MAX.into()
}

/// For sets of at most 255 ways.
impl Way for u8 {
    const NONE: u8 = u8::MAX;

    #[inline(always)]
    fn of(number: usize) -> u8 {
        debug_assert!(number < usize::from(u8::NONE), "at most 255 ways");
        number as u8
    }

    #[inline(always)]
    fn number(self) -> usize {
        self.into()
    }
}

/// For any: arrays have at most 2^24 entries.
impl Way for u32 {
    const NONE: u32 = u32::MAX;

    #[inline(always)]
    fn of(number: usize) -> u32 {
        number as u32
    }

    #[inline(always)]
    fn number(self) -> usize {
        self as usize
    }
}
