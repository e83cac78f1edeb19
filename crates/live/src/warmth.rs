//! Makes memory warm before a program starts.
//!
//! A guest may return its free memory to the hypervisor (`probe` and `pagewalk doctor` tell). At the next touch the
//! hypervisor must find and clear it again: on one such host 2 MiB took 4 to 6 ms at once, and 0.3 to 0.6 ms shortly
//! after use. So run times depend on where memory comes from, most of all with huge pages. Linux hands out the most
//! recently freed memory first: using and freeing enough memory right before a run makes the run find memory that is
//! there.

use crate::probe::ProbeError;
use crate::probe::memory::{BASE, Pages, Space, available_bytes};

/// The least amount: programs need more than their peak, for page tables and cached files.
const LEAST: u64 = 64 << 20;

/// How much memory to use right before a run.
#[derive(Clone, Copy, Debug)]
pub struct Warmth {
    bytes: u64,
}

impl Warmth {
    /// Enough for a program with this peak of resident memory.
    pub fn of(resident_bytes: u64) -> Warmth {
        let mut warmth = Warmth { bytes: 0 };
        warmth.suit(resident_bytes);
        warmth
    }

    /// Raises it to suit another run too, with spare room for its huge pages, but to at most three quarters of
    /// available memory.
    pub fn suit(&mut self, resident_bytes: u64) {
        let wanted = LEAST + resident_bytes / 4 * 5;
        self.bytes = self.bytes.max(wanted.min(available_bytes() / 4 * 3));
    }

    /// The amount in MiB.
    pub fn mebibytes(&self) -> f64 {
        self.bytes as f64 / f64::from(1 << 20)
    }

    /// Uses and frees the memory.
    ///
    /// # Errors
    /// If the kernel has no room for it.
    pub fn warm(&self) -> Result<(), ProbeError> {
        let bytes = self.bytes as usize / BASE * BASE;
        // Huge or not, the same frames become warm.
        let space = Space::memory(bytes, Pages::Huge).or_else(|_| Space::memory(bytes, Pages::Default))?;
        space.touch(0, bytes, BASE);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_run_says_how_much() {
        let mut warmth = Warmth::of(4 << 20);
        let small = warmth.bytes;
        warmth.suit(40 << 20);
        warmth.suit(8 << 20);
        assert_eq!((small, warmth.bytes), (LEAST + (5 << 20), LEAST + (50 << 20)));
        warmth.suit(u64::MAX / 8);
        assert!(warmth.bytes < available_bytes());
    }

    #[test]
    fn memory_is_used_and_freed() {
        Warmth::of(0).warm().unwrap();
    }
}
