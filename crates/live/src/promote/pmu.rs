//! Samples by the processor: one in so many loads and stores that missed the last TLB level, with addresses (Intel:
//! `MEM_INST_RETIRED.STLB_MISS_LOADS` and `_STORES`, precise; event 0xd0 with masks 0x11 and 0x12, which older and
//! small cores have under the names `MEM_UOPS_RETIRED` and `DTLB_MISS`).
//!
//! AMD's IBS samples operations, not misses: most samples would say nothing and are not worth their price for one
//! useful one in a hundred; it is not supported.

mod ring;

use super::policy::{MissedPages, RegionMisses, RegionView};
use super::processor_seconds;
use super::sampler::{SampleError, Sampler, SamplerKind, Target, UnusableSampler};
use crate::pages::HUGE_BYTES;
use crate::perf;
use crate::tracing::sys::Pid;
use ring::{Contents, Ring};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io;

/// Raw event type.
const RAW: u32 = 4;
const LOADS: u64 = 0x11d0;
const STORES: u64 = 0x12d0;
/// Misses per sample; a prime, so that no loop keeps step with it.
const PERIOD: u64 = 10_007;
/// Samples carry an address.
const ADDRESS: u64 = 1 << 3;
/// Precise (2).
const FLAGS: u64 = perf::USER_ONLY | 2 << 15;

/// A thread's event, with its ring.
#[derive(Debug)]
struct Event {
    ring: Ring,
    /// Closing it ends the event.
    _file: File,
}

/// The sampler.
#[derive(Debug)]
pub struct Pmu {
    threads: HashMap<Pid, Vec<Event>>,
    /// The process's processor time when the rings were last drained.
    until: f64,
    lost: u64,
}

/// Whether this host has it.
///
/// # Errors
/// Why not.
pub fn check() -> Result<(), UnusableSampler> {
    open(std::process::id() as Pid).map(drop)
}

fn open(thread: Pid) -> Result<Vec<Event>, UnusableSampler> {
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    if !cpus.contains("GenuineIntel") {
        return Err(UnusableSampler::new(
            SamplerKind::Pmu,
            "precise samples of TLB misses are supported on Intel's processors only",
            "another way to sample: --sampler",
        ));
    }
    events(thread).map_err(unable)
}

fn unable(error: io::Error) -> UnusableSampler {
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    match error.raw_os_error() {
        Some(1 | 13) => UnusableSampler::new(
            SamplerKind::Pmu,
            format!("samples are not permitted (kernel.perf_event_paranoid is {})", paranoid.trim()),
            "be root, have the capability CAP_PERFMON, or sysctl kernel.perf_event_paranoid=2",
        ),
        // ENOENT, ENODEV, EINVAL, EOPNOTSUPP.
        Some(2 | 19 | 22 | 95) => UnusableSampler::new(
            SamplerKind::Pmu,
            "this processor, or its hypervisor, offers no precise samples of TLB misses",
            "a host with them: hardware, or a virtual machine that is given the performance counters",
        ),
        _ => UnusableSampler::new(
            SamplerKind::Pmu,
            format!("perf_event_open: {error}"),
            "another way to sample: --sampler",
        ),
    }
}

fn events(thread: Pid) -> io::Result<Vec<Event>> {
    [LOADS, STORES].into_iter().map(|config| event(thread, config)).collect()
}

fn event(thread: Pid, config: u64) -> io::Result<Event> {
    let event = perf::Event { kind: RAW, config, period: PERIOD, sample_type: ADDRESS, flags: FLAGS };
    let file = File::from(event.open(thread)?);
    Ok(Event { ring: Ring::of(&file)?, _file: file })
}

impl Pmu {
    /// Starts sampling all threads of a process.
    ///
    /// # Errors
    /// If processor, kernel or user cannot.
    pub fn open(pid: Pid) -> Result<Pmu, UnusableSampler> {
        let threads = HashMap::from([(pid, open(pid)?)]);
        let until = processor_seconds(pid).map_err(unable)?;
        let mut pmu = Pmu { threads, until, lost: 0 };
        pmu.follow_threads(pid).map_err(unable)?;
        Ok(pmu)
    }

    /// Adds new threads and drops ended ones.
    fn follow_threads(&mut self, pid: Pid) -> io::Result<()> {
        let mut before = std::mem::take(&mut self.threads);
        for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
            let Some(thread) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            let events = match before.remove(&thread) {
                Some(events) => events,
                None => match events(thread) {
                    // It ended meanwhile.
                    Err(error) if error.raw_os_error() == Some(3) => continue,
                    other => other?,
                },
            };
            self.threads.insert(thread, events);
        }
        Ok(())
    }
}

impl Sampler for Pmu {
    fn way(&self) -> SamplerKind {
        SamplerKind::Pmu
    }

    fn parts_at_once(&self) -> usize {
        usize::MAX
    }

    fn sample(&mut self, target: Target<'_>, parts: &[RegionView]) -> Result<Vec<RegionMisses>, SampleError> {
        let of_process = |error| SampleError::of_process(SamplerKind::Pmu, error);
        let mut contents = Contents::default();
        for event in self.threads.values_mut().flatten() {
            event.ring.drain(&mut contents);
        }
        let now = processor_seconds(target.pid).map_err(of_process)?;
        let ran = now - std::mem::replace(&mut self.until, now);
        self.follow_threads(target.pid).map_err(of_process)?;
        self.lost += contents.lost;
        Ok(counted(parts, &contents, ran))
    }

    fn kernel_seconds(&self) -> f64 {
        // Interrupts count as the process's own time.
        0.0
    }

    fn notes(&self) -> Vec<String> {
        let note = format!("{} samples were lost, as there was no room for them", self.lost);
        if self.lost > 0 { vec![note] } else { Vec::new() }
    }
}

/// Samples by region, if the process ran `ran` seconds of processor time meanwhile. Lost samples are assumed to be
/// distributed like the others.
fn counted(parts: &[RegionView], contents: &Contents, ran: f64) -> Vec<RegionMisses> {
    let mut by_part: HashMap<u64, Vec<u64>> = HashMap::new();
    for &address in &contents.addresses {
        by_part.entry(address / HUGE_BYTES * HUGE_BYTES).or_default().push(address / 4096 * 4096);
    }
    let kept = contents.addresses.len() as f64;
    let each = PERIOD as f64 * (kept + contents.lost as f64) / kept.max(1.0) / ran;
    let of_part = |part: &RegionView| {
        let mut pages = by_part.remove(&part.start).unwrap_or_default();
        let misses_per_second = pages.len() as f64 * each;
        pages.sort_unstable();
        pages.dedup();
        RegionMisses {
            start: part.start,
            misses_per_second,
            seen: MissedPages::Pages(pages),
            saturated: false,
        }
    };
    if ran > 0.0 { parts.iter().map(of_part).collect() } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_counted_by_part() {
        let view = |number: u64| RegionView { start: number * HUGE_BYTES, resident_pages: 512, huge: false };
        let part = 7 * HUGE_BYTES;
        let contents = Contents { addresses: vec![part + 5, part + 4097, part + 4098, 1 << 40], lost: 4 };
        let found = counted(&[view(7), view(8)], &contents, 0.5);
        assert_eq!(found[0].seen, MissedPages::Pages(vec![part, part + 4096]));
        assert_eq!(found[0].misses_per_second, 3.0 * 10_007.0 * 2.0 / 0.5);
        assert_eq!(
            (found[1].misses_per_second, found[1].seen.clone()),
            (0.0, MissedPages::Pages(Vec::new()))
        );
        assert_eq!(counted(&[view(7)], &contents, 0.0), []);
    }

    #[test]
    fn this_host_samples_or_says_why_not() {
        if let Err(unable) = check() {
            assert!(!unable.why.is_empty() && !unable.enable.is_empty(), "{unable}");
        }
    }
}
