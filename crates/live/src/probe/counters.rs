//! Hardware counters to check the timings with, if kernel and processor offer them.

use super::arrays::Cycle;
use crate::perf::{Event, USER_ONLY};
use rustix::fd::OwnedFd;
use std::fs;
use std::io;

/// Type of events of caches and TLBs.
const HARDWARE_CACHE: u32 = 3;
/// Misses of loads in the data TLB: cache 3, operation 0, result 1.
const DATA_TLB_LOAD_MISSES: u64 = 3 | 1 << 16;

/// Counts walks by loads of this thread: misses of the last data TLB level.
#[derive(Debug)]
pub struct WalkCounter(OwnedFd);

impl WalkCounter {
    /// Starts counting.
    ///
    /// # Errors
    /// If the kernel does not permit it, or the processor (or its hypervisor) has no such counter.
    pub fn open() -> io::Result<WalkCounter> {
        let event = Event {
            kind: HARDWARE_CACHE,
            config: DATA_TLB_LOAD_MISSES,
            flags: USER_ONLY,
            ..Event::default()
        };
        event.open(0).map(WalkCounter)
    }

    /// The count so far.
    ///
    /// # Errors
    /// As the system call's.
    pub fn read(&self) -> io::Result<u64> {
        let mut count = [0; 8];
        rustix::io::read(&self.0, &mut count)?;
        Ok(u64::from_ne_bytes(count))
    }
}

/// Walks per access of each cycle, counted while `run` follows it; `run` returns the number of accesses.
///
/// # Errors
/// If counters cannot be opened or read.
pub fn walks_per_access<E>(
    cycles: &[Cycle],
    mut run: impl FnMut(Cycle) -> Result<u64, E>,
) -> io::Result<Result<Vec<(u64, f64)>, E>> {
    let misses = WalkCounter::open()?;
    let mut all = Vec::new();
    for &cycle in cycles {
        let before = misses.read()?;
        let accesses = match run(cycle) {
            Ok(accesses) => accesses,
            Err(error) => return Ok(Err(error)),
        };
        all.push((cycle.pages, (misses.read()? - before) as f64 / accesses as f64));
    }
    Ok(Ok(all))
}

/// Why there are no counters, in one line.
pub fn why_not(error: &io::Error) -> String {
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    match error.raw_os_error() {
        Some(1 | 13) => format!(
            "no hardware counters beside the timing: not permitted (kernel.perf_event_paranoid is {})",
            paranoid.trim()
        ),
        // ENOENT, ENODEV, EOPNOTSUPP.
        Some(2 | 19 | 95) => {
            "no hardware counters beside the timing: this processor, or its hypervisor, offers none"
                .to_owned()
        }
        _ => format!("no hardware counters beside the timing: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_count_or_say_why_not() {
        match WalkCounter::open() {
            Ok(misses) => assert!(misses.read().unwrap() <= misses.read().unwrap()),
            Err(error) => assert!(why_not(&error).starts_with("no hardware counters"), "{error}"),
        }
    }
}
