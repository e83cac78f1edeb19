//! Memory that is there when a program begins.
//!
//! A guest may give its free memory back to its hypervisor (`probe` tells, and `pagewalk doctor`). At the next touch
//! the hypervisor has to find and clear it again: on one such host 2 MiB took 4 to 6 ms at once, and 0.3 to 0.6 ms a
//! moment after they had been in use. So run times differ by where their memory comes from, and most of all those with
//! huge pages. Linux hands out first what was freed last: whoever uses so much memory right before a run, and frees it,
//! has the run find memory that is there.

use crate::probe::ProbeError;
use crate::probe::memory::{BASE, Pages, Space, available_bytes};

/// The least that is used: programs are larger than their peak tells, by tables of pages and files in memory.
const LEAST: u64 = 64 << 20;

/// How much memory to use right before a run.
#[derive(Clone, Copy, Debug)]
pub struct Warmth {
    bytes: u64,
}

impl Warmth {
    /// For a program with this much memory resident at its peak.
    pub fn of(resident_bytes: u64) -> Warmth {
        let mut warmth = Warmth { bytes: 0 };
        warmth.suit(resident_bytes);
        warmth
    }

    /// Enough for another run with this much, too, and for huge pages that it may have beside: of what can be had now,
    /// three quarters at most.
    pub fn suit(&mut self, resident_bytes: u64) {
        let wanted = LEAST + resident_bytes / 4 * 5;
        self.bytes = self.bytes.max(wanted.min(available_bytes() / 4 * 3));
    }

    /// What is used before a run, in MiB.
    pub fn mebibytes(&self) -> f64 {
        self.bytes as f64 / f64::from(1 << 20)
    }

    /// Uses the memory and frees it.
    ///
    /// # Errors
    /// When the kernel has no room for it.
    pub fn warm(&self) -> Result<(), ProbeError> {
        let bytes = self.bytes as usize / BASE * BASE;
        // Whether the kernel gives huge pages does not matter: what they are made of is the same.
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
