//! Samples by `/proc/PID/clear_refs` and `Referenced` of `/proc/PID/smaps`: how many pages of each mapping were walked
//! for since their accessed bits were cleared. Needs only the right to inspect the process.
//!
//! The resolution is one mapping: its walks are divided over its regions by their resident pages. So an untouched
//! region is charged like its busy neighbours, unlike in APPROX-ONLINE; an entirely idle mapping is not charged.

use super::estimate::{SamplingInterval, rate};
use super::policy::{MissedPages, RegionMisses, RegionView};
use super::processor_seconds;
use super::sampler::{SampleError, Sampler, SamplerKind, Target, UnusableSampler};
use crate::tracing::maps::{self, Mapping};
use crate::tracing::sys::Pid;
use std::fs;
use std::io;
use std::thread::sleep;
use std::time::Duration;

/// Fewer walked pages in a mapping do not show that two of a region were walked for.
const PAGES_LEAST: u64 = 2;

/// The sampler.
#[derive(Debug)]
pub struct ReferencedBits {
    interval: SamplingInterval,
}

/// Whether this host has it.
///
/// # Errors
/// Why not.
pub fn check() -> Result<(), UnusableSampler> {
    fs::metadata("/proc/self/clear_refs").map(drop).map_err(|error| {
        let why = format!("/proc/self/clear_refs: {error}");
        UnusableSampler::new(
            SamplerKind::Referenced,
            why,
            "a kernel with CONFIG_PROC_PAGE_MONITOR, and /proc mounted",
        )
    })
}

impl ReferencedBits {
    /// Opens it for a process that this user may inspect.
    ///
    /// # Errors
    /// If this user may not.
    pub fn open(pid: Pid) -> Result<ReferencedBits, UnusableSampler> {
        check()?;
        let path = format!("/proc/{pid}/clear_refs");
        fs::OpenOptions::new().write(true).open(&path).map_err(|error| {
            let enable = "be the process's own user, or root; or have the capability CAP_SYS_PTRACE";
            UnusableSampler::new(SamplerKind::Referenced, format!("{path}: {error}"), enable)
        })?;
        let millis = Duration::from_millis;
        Ok(ReferencedBits { interval: SamplingInterval::new(millis(10), millis(2), millis(200)) })
    }
}

impl Sampler for ReferencedBits {
    fn way(&self) -> SamplerKind {
        SamplerKind::Referenced
    }

    fn parts_at_once(&self) -> usize {
        usize::MAX
    }

    fn sample(&mut self, target: Target<'_>, parts: &[RegionView]) -> Result<Vec<RegionMisses>, SampleError> {
        let of_process = |error| SampleError::of_process(SamplerKind::Referenced, error);
        let pid = target.pid;
        fs::write(format!("/proc/{pid}/clear_refs"), "1").map_err(of_process)?;
        let before = processor_seconds(pid).map_err(of_process)?;
        sleep(self.interval.get());
        let mappings = maps::detailed_mappings(pid).map_err(of_process)?;
        let ran = processor_seconds(pid).map_err(of_process)? - before;
        if mappings.is_empty() {
            return Err(of_process(io::ErrorKind::NotFound.into()));
        }
        let found = estimated(parts, &mappings, ran);
        let missing = found.iter().filter(|found| found.misses_per_second > 0.0).count();
        self.interval.adapt(found.iter().filter(|found| found.saturated).count(), missing);
        Ok(found)
    }

    fn kernel_seconds(&self) -> f64 {
        0.0
    }
}

/// A mapping's small pages, and how many were walked for. Huge pages are assumed to be among the walked ones, the
/// cautious side.
fn small(mapping: &Mapping) -> (u64, u64) {
    let pages = |bytes: u64| bytes.saturating_sub(mapping.huge_bytes) / 4096;
    (pages(mapping.resident_bytes), pages(mapping.referenced_bytes))
}

/// Estimates regions' misses from mappings, if the process ran `ran` seconds of processor time meanwhile.
fn estimated(parts: &[RegionView], mappings: &[Mapping], ran: f64) -> Vec<RegionMisses> {
    let of_part = |part: &RegionView| {
        let place = mappings.partition_point(|mapping| mapping.end <= part.start);
        let mapping = mappings.get(place).filter(|mapping| mapping.start <= part.start)?;
        let (small, walked) = small(mapping);
        let each = rate(walked as f64, small as f64, ran);
        Some(RegionMisses {
            start: part.start,
            misses_per_second: each * f64::from(part.resident_pages),
            seen: if walked >= PAGES_LEAST { MissedPages::Several } else { MissedPages::Pages(Vec::new()) },
            saturated: walked * 10 > small * 9,
        })
    };
    if ran > 0.0 { parts.iter().filter_map(of_part).collect() } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::HUGE_BYTES;
    use crate::tracing::maps::parsed;

    #[test]
    fn a_mapping_is_divided_over_its_parts() {
        let start = 8 * HUGE_BYTES;
        let text = format!(
            "{start:x}-{:x} rw-p 00000000 00:00 0 \nSize: 6144 kB\nRss:      5120 kB\nReferenced: 3584 kB\n\
             AnonHugePages:      2048 kB\nVmFlags: rd wr\nffff-10000 r--p 00000000 00:00 0 [x]\nRss: 4 kB\n",
            start + 3 * HUGE_BYTES
        );
        let mut mappings = parsed(&text);
        mappings.sort_by_key(|mapping| mapping.start);
        assert_eq!(small(&mappings[1]), (768, 384), "the huge page is taken for walked");
        let view = |number: u64, resident_pages| RegionView {
            start: start + number * HUGE_BYTES,
            resident_pages,
            huge: false,
        };
        let found = estimated(&[view(1, 512), view(2, 256), view(9, 512)], &mappings, 0.01);
        assert_eq!(found.len(), 2, "the third is in no mapping");
        assert!((found[0].misses_per_second - 512.0 * 2f64.ln() / 0.01).abs() < 1e-6);
        assert!((found[0].misses_per_second - 2.0 * found[1].misses_per_second).abs() < 1e-6);
        assert_eq!((found[0].seen.clone(), found[0].saturated), (MissedPages::Several, false));
        let idle =
            [Mapping { start, end: start + 3 * HUGE_BYTES, resident_bytes: 6 << 20, ..Mapping::default() }];
        let found = estimated(&[view(0, 512)], &idle, 0.01);
        assert_eq!(
            (found[0].misses_per_second, found[0].seen.clone()),
            (0.0, MissedPages::Pages(Vec::new()))
        );
    }
}
