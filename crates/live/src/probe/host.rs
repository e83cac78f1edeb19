//! Pins the probe to a processor, and describes the host around it.

use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use std::arch::x86_64::__cpuid;
use std::fs;

/// The conditions that affect the figures.
#[derive(Clone, Debug, PartialEq)]
pub struct ProbeConditions {
    /// The processor that everything ran on.
    pub cpu: usize,
    /// The processors that it could have run on.
    pub cpus_allowed: Vec<usize>,
    /// Whether a hypervisor is present (CPUID leaf 1): then every walk passes through its tables too.
    pub hypervisor: bool,
    /// Whether free memory returns to the hypervisor, so that first touches may wait ([`super::balloon`]).
    pub reports_free_pages: bool,
    /// Ticks of the time-stamp counter per nanosecond.
    pub tsc_ghz: f64,
    /// Whether the counter is constant and never stops, according to the kernel.
    pub tsc_constant: bool,
    /// Bytes of available memory before the probe.
    pub available_bytes: u64,
    /// Load average of the minute before.
    pub load: Option<f64>,
}

/// Why the thread cannot run on the requested processor.
#[derive(Debug, thiserror::Error)]
pub enum PinError {
    /// This process may not use it.
    #[error("processor {asked} is not among those that this process may run on: {allowed}")]
    NotAllowed {
        /// The requested processor.
        asked: usize,
        /// The permitted ones.
        allowed: String,
    },
    /// The system call failed.
    #[error("keeping to processor {cpu}: {error}")]
    #[allow(missing_docs)]
    Refused { cpu: usize, error: Errno },
}

/// A thread pinned to a processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuPin {
    /// The processor.
    pub cpu: usize,
    /// The permitted processors, ascending.
    pub allowed: Vec<usize>,
}

/// Pins the calling thread to the requested processor, or to the current one.
///
/// # Errors
/// If the affinity mask, which control groups narrow too, lacks it, or the kernel refuses.
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

/// Pins the calling thread to this processor.
///
/// # Errors
/// If the kernel refuses.
pub fn keep_on(cpu: usize) -> Result<(), PinError> {
    let mut only = CpuSet::new();
    only.set(cpu);
    sched_setaffinity(None, &only).map_err(|error| PinError::Refused { cpu, error })
}

/// Whether CPUID shows a hypervisor.
pub fn hypervisor() -> bool {
    const PRESENT: u32 = 1 << 31;
    // Every x86-64 processor has CPUID and its leaf 1.
    #[allow(unused_unsafe)]
    // SAFETY: the instruction reads nothing but its leaf's number.
    let leaf = unsafe { __cpuid(1) };
    leaf.ecx & PRESENT != 0
}

/// Whether, according to the kernel, the time-stamp counter has one rate and never stops.
pub fn tsc_constant() -> bool {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = text.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    ["constant_tsc", "nonstop_tsc"].iter().all(|name| flags.split_whitespace().any(|flag| flag == *name))
}

/// Load average of the last minute.
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
