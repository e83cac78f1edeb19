//! Where the probe runs: the processor it stays on, and what of the host matters to its figures.

use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use std::arch::x86_64::__cpuid;
use std::fs;

/// What of a host matters to the figures.
#[derive(Clone, Debug, PartialEq)]
pub struct ProbeConditions {
    /// The processor that everything ran on.
    pub cpu: usize,
    /// Processors that it could have been.
    pub cpus_allowed: Vec<usize>,
    /// Whether a hypervisor is present (CPUID leaf 1), whose tables every walk goes through too.
    pub hypervisor: bool,
    /// Whether free memory goes back to it, so that first touches may wait ([`super::balloon`]).
    pub reports_free_pages: bool,
    /// Ticks of the time-stamp counter in a nanosecond.
    pub tsc_ghz: f64,
    /// Whether the counter's rate is constant and it never stops, as the kernel says.
    pub tsc_constant: bool,
    /// Bytes of memory that could be had before.
    pub available_bytes: u64,
    /// Processes and threads that ran or wanted to, on average over the last minute before.
    pub load: Option<f64>,
}

/// Why the processor asked for cannot be taken.
#[derive(Debug, thiserror::Error)]
pub enum PinError {
    /// It is not among those that this process may use.
    #[error("processor {asked} is not among those that this process may run on: {allowed}")]
    NotAllowed {
        /// The one asked for.
        asked: usize,
        /// Those that may be used.
        allowed: String,
    },
    /// The system call failed.
    #[error("keeping to processor {cpu}: {error}")]
    Refused {
        /// The one asked for.
        cpu: usize,
        /// Its reason.
        error: Errno,
    },
}

/// Where a thread was put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuPin {
    /// The processor that it is kept on.
    pub cpu: usize,
    /// Those that it could have been kept on, ascending.
    pub allowed: Vec<usize>,
}

/// Keeps the calling thread on a processor: the one asked for, or the one it runs on.
///
/// # Errors
/// When the affinity mask, which control groups narrow too, does not have it, or the kernel refuses.
pub fn pin(asked: Option<usize>) -> Result<CpuPin, PinError> {
    let cpu = asked.unwrap_or_else(sched_getcpu);
    let set = sched_getaffinity(None).map_err(|error| PinError::Refused { cpu, error })?;
    let allowed: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect();
    if !allowed.contains(&cpu) {
        let allowed: Vec<String> = allowed.iter().map(usize::to_string).collect();
        return Err(PinError::NotAllowed { asked: cpu, allowed: allowed.join(", ") });
    }
    keep_on(cpu)?;
    Ok(CpuPin { cpu, allowed })
}

/// Keeps the calling thread on this processor.
///
/// # Errors
/// When the kernel refuses.
pub fn keep_on(cpu: usize) -> Result<(), PinError> {
    let mut only = CpuSet::new();
    only.set(cpu);
    sched_setaffinity(None, &only).map_err(|error| PinError::Refused { cpu, error })
}

/// Whether a hypervisor says that it is there.
pub fn hypervisor() -> bool {
    const PRESENT: u32 = 1 << 31;
    // Every x86-64 processor has CPUID and its leaf 1.
    #[allow(unused_unsafe)]
    // SAFETY: the instruction reads nothing but its leaf's number.
    let leaf = unsafe { __cpuid(1) };
    leaf.ecx & PRESENT != 0
}

/// Whether the kernel says that the time-stamp counter runs at one rate and never stops.
pub fn tsc_constant() -> bool {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = text.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    ["constant_tsc", "nonstop_tsc"].iter().all(|name| flags.split_whitespace().any(|flag| flag == *name))
}

/// Load of the last minute.
pub fn load() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_that_is_not_ours_is_refused() {
        let pinned = std::thread::spawn(|| pin(None)).join().unwrap().unwrap();
        assert!(pinned.allowed.contains(&pinned.cpu));
        let error = pin(Some(CpuSet::MAX_CPU + 5)).unwrap_err();
        assert!(matches!(error, PinError::NotAllowed { .. }), "{error}");
    }
}
