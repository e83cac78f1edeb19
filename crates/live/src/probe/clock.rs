//! Time by the time-stamp counter, and the core's clock.

use super::figure::Samples;
use std::arch::x86_64::{__rdtscp, _mm_lfence, _rdtsc};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// How long to compare the counter with the system's clock.
const CALIBRATION: Duration = Duration::from_millis(20);

/// Additions of one block of [`additions`].
const ADDITIONS: u64 = 16 * 4096;

/// The time-stamp counter, calibrated against `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    ticks_per_ns: f64,
}

impl Clock {
    /// Compares the counter with the system's clock for 20 ms.
    pub fn calibrate() -> Clock {
        let (begun, first) = (Instant::now(), begin());
        while begun.elapsed() < CALIBRATION {}
        let (elapsed, last) = (begun.elapsed(), end());
        Clock { ticks_per_ns: last.wrapping_sub(first) as f64 / elapsed.as_nanos() as f64 }
    }

    /// Counter ticks per nanosecond.
    pub fn ticks_per_ns(self) -> f64 {
        self.ticks_per_ns
    }

    /// Nanoseconds that `work` takes.
    pub fn time<T>(self, work: impl FnOnce() -> T) -> f64 {
        let first = begin();
        black_box(work());
        end().wrapping_sub(first) as f64 / self.ticks_per_ns
    }

    /// The core's clock in GHz: dependent additions take a cycle each.
    pub fn core_ghz(self, rounds: usize) -> Samples {
        // The first blocks wake the core.
        (0..8).for_each(|_| additions());
        (0..rounds).map(|_| ADDITIONS as f64 / self.time(additions)).collect()
    }
}

/// The counter, after everything before and before anything after.
fn begin() -> u64 {
    // SAFETY: every x86-64 processor has these instructions; Linux lets programs use them.
    unsafe {
        _mm_lfence();
        let ticks = _rdtsc();
        _mm_lfence();
        ticks
    }
}

/// The counter, after everything timed.
fn end() -> u64 {
    let mut processor = 0;
    // SAFETY: as above, and writes a local.
    unsafe {
        let ticks = __rdtscp(&mut processor);
        _mm_lfence();
        ticks
    }
}

/// [`ADDITIONS`] dependent additions.
fn additions() {
    // SAFETY: touches only registers. Not immediates: modern cores fold additions of those while renaming.
    unsafe {
        std::arch::asm!(
            "2:",
            "add {sum}, {one}", "add {sum}, {one}", "add {sum}, {one}", "add {sum}, {one}",
            "add {sum}, {one}", "add {sum}, {one}", "add {sum}, {one}", "add {sum}, {one}",
            "add {sum}, {one}", "add {sum}, {one}", "add {sum}, {one}", "add {sum}, {one}",
            "add {sum}, {one}", "add {sum}, {one}", "add {sum}, {one}", "add {sum}, {one}",
            "dec {count}",
            "jnz 2b",
            sum = inout(reg) 0u64 => _,
            one = in(reg) 1u64,
            count = inout(reg) ADDITIONS / 16 => _,
            options(nomem, nostack)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_on() {
        let clock = Clock::calibrate();
        let slept = clock.time(|| std::thread::sleep(Duration::from_millis(2)));
        assert!(slept > 1.9e6, "{slept} ns");
        let ghz = clock.core_ghz(5).median();
        assert!((0.1..10.0).contains(&ghz), "{ghz} GHz");
    }
}
