//! Samples by DAMON: the kernel clears and rereads the accessed bits of a few pages of each region.
//!
//! DAMON clears the bit in the page table but not the TLB. While the TLB holds the page, the processor does not set the
//! bit again; so a set bit means a walk. Pages are identified by frames, since not every kernel's DAMON follows a
//! process's addresses; if fork shares a page, other processes' walks count too.
//!
//! It was tried on a busy virtual machine (Linux 6.18). Of a program that visits 256 MiB at random, all 127 sampled
//! pages had their bits set. Of one that touches 256 MiB once, and then 16 pages for ever, only these 16 had.

mod control;

use super::estimate::{SamplingInterval, rate};
use super::policy::{MissedPages, RegionMisses, RegionView};
use super::processor_seconds;
use super::sampler::{SampleError, Sampler, SamplerKind, Target, UnusableSampler};
use crate::pagemap::{self, PAGE_BYTES};
use crate::pages::HUGE_BYTES;
use control::{Control, REGION_BYTES};
use rustix::io::Errno;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// Reads of each page's bit per round.
const LOOKS: u32 = 10;
/// Most pages of a region per round, if there are few regions: a single round can then show two that miss.
const PAGES_EACH_MAX: usize = 4;
/// Pages per round.
const PAGES_MAX: usize = 256;
/// Attempts to find a present page.
const TRIES: u32 = 16;
const PRESENT: u64 = 1 << 63;
const FRAME: u64 = (1 << 55) - 1;
/// In `/proc/kpageflags`: first and further pages of blocks, which share one bit; merged and zero pages.
const NO_PAGE_OF_ITS_OWN: u64 = 1 << 15 | 1 << 16 | 1 << 21 | 1 << 24;

/// The sampler.
#[derive(Debug)]
pub struct Damon {
    control: Control,
    flags: File,
    interval: SamplingInterval,
    random: u64,
    /// Pages not sampled because several share a bit.
    shared_bits: u64,
}

/// Whether this host has DAMON; does not take it.
///
/// # Errors
/// Why not.
pub fn check() -> Result<(), UnusableSampler> {
    control::check()?;
    if pagemap::frames_readable().unwrap_or(false) {
        return Ok(());
    }
    Err(UnusableSampler::new(
        SamplerKind::Damon,
        "this user may not read frame numbers in /proc/PID/pagemap",
        pagemap::ENABLE_FRAMES,
    ))
}

impl Damon {
    /// Takes DAMON.
    ///
    /// # Errors
    /// If this host has none, or it is not free.
    pub fn open() -> Result<Damon, UnusableSampler> {
        check()?;
        let flags = File::open("/proc/kpageflags").map_err(|error| {
            UnusableSampler::new(
                SamplerKind::Damon,
                format!("/proc/kpageflags: {error}"),
                "a kernel with CONFIG_PROC_PAGE_MONITOR, as root",
            )
        })?;
        let millis = Duration::from_millis;
        Ok(Damon {
            control: Control::take()?,
            flags,
            interval: SamplingInterval::new(millis(5), millis(1), millis(20)),
            random: 0x9e37_79b9_7f4a_7c15,
            shared_bits: 0,
        })
    }

    /// Frames of randomly chosen pages, with the pages' addresses.
    fn choose(&mut self, pagemap: &File, parts: &[RegionView]) -> io::Result<HashMap<u64, u64>> {
        let each = (PAGES_MAX / parts.len().max(1)).clamp(1, PAGES_EACH_MAX);
        let mut chosen = HashMap::new();
        for part in parts {
            let mut found = 0;
            for _ in 0..TRIES {
                let page = part.start + self.number() % (HUGE_BYTES / PAGE_BYTES) * PAGE_BYTES;
                let word = read(pagemap, page / PAGE_BYTES)?;
                if word & PRESENT == 0 {
                    continue;
                }
                let frame = word & FRAME;
                if read(&self.flags, frame)? & NO_PAGE_OF_ITS_OWN != 0 {
                    self.shared_bits += 1;
                    continue;
                }
                let is_new = chosen.insert(frame * PAGE_BYTES, page).is_none();
                found += usize::from(is_new);
                if found == each {
                    break;
                }
            }
        }
        Ok(chosen)
    }

    /// The next random number (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
    fn number(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ self.random >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

impl Sampler for Damon {
    fn way(&self) -> SamplerKind {
        SamplerKind::Damon
    }

    fn parts_at_once(&self) -> usize {
        PAGES_MAX
    }

    fn sample(&mut self, target: Target<'_>, parts: &[RegionView]) -> Result<Vec<RegionMisses>, SampleError> {
        let of_process = |error| SampleError::of_process(SamplerKind::Damon, error);
        let mut chosen = self.choose(target.pagemap, parts).map_err(of_process)?;
        let frames = without_neighbours(&mut chosen);
        if frames.is_empty() {
            return Ok(Vec::new());
        }
        let before = processor_seconds(target.pid).map_err(of_process)?;
        let looked = self.control.watch(&frames, self.interval.get(), LOOKS);
        let looked = looked.map_err(|error| SampleError::Io { way: SamplerKind::Damon, error })?;
        let ran = processor_seconds(target.pid).map_err(of_process)? - before;
        let times: HashMap<u64, u32> = looked.into_iter().collect();
        let pages: Vec<(u64, u32)> =
            frames.iter().map(|frame| (chosen[frame], times.get(frame).copied().unwrap_or(0))).collect();
        let found = estimated(parts, &pages, ran);
        let missing = found.iter().filter(|found| found.misses_per_second > 0.0).count();
        self.interval.adapt(found.iter().filter(|found| found.saturated).count(), missing);
        Ok(found)
    }

    fn kernel_seconds(&self) -> f64 {
        self.control.kernel_seconds
    }

    fn notes(&self) -> Vec<String> {
        let note = format!(
            "{} pages were not sampled: they belong to blocks of several pages that the kernel counts as accessed \
             together, or are zero or merged pages",
            self.shared_bits
        );
        if self.shared_bits > 0 { vec![note] } else { Vec::new() }
    }
}

/// Estimates regions' misses from pages (addresses, and how often their bit was set), if the process ran `ran` seconds
/// of processor time meanwhile.
fn estimated(parts: &[RegionView], pages: &[(u64, u32)], ran: f64) -> Vec<RegionMisses> {
    let mut by_part: HashMap<u64, Vec<(u64, u32)>> = HashMap::new();
    for &(page, times) in pages {
        by_part.entry(page / HUGE_BYTES * HUGE_BYTES).or_default().push((page, times));
    }
    let interval = ran / f64::from(LOOKS);
    let of_part = |part: &RegionView| {
        let pages = by_part.get(&part.start)?;
        let rates = pages.iter().map(|&(_, times)| rate(times.into(), LOOKS.into(), interval));
        let each = rates.sum::<f64>() / pages.len() as f64;
        Some(RegionMisses {
            start: part.start,
            misses_per_second: each * f64::from(part.resident_pages),
            seen: MissedPages::Pages(
                pages.iter().filter(|(_, times)| *times > 0).map(|(page, _)| *page).collect(),
            ),
            saturated: pages.iter().any(|(_, times)| *times == LOOKS),
        })
    };
    // It could not miss without running: nothing is known.
    if ran > 0.0 { parts.iter().filter_map(of_part).collect() } else { Vec::new() }
}

/// The frames in order, without direct neighbours, which DAMON would merge.
fn without_neighbours(chosen: &mut HashMap<u64, u64>) -> Vec<u64> {
    let mut frames: Vec<u64> = chosen.keys().copied().collect();
    frames.sort_unstable();
    let mut kept: Vec<u64> = Vec::with_capacity(frames.len());
    for frame in frames {
        if kept.last().is_some_and(|last| last + REGION_BYTES == frame) {
            chosen.remove(&frame);
        } else {
            kept.push(frame);
        }
    }
    kept
}

/// A word of a file of words.
fn read(file: &File, position: u64) -> io::Result<u64> {
    let mut word = [0; 8];
    // Reads nothing if the process is gone.
    match file.read_at(&mut word, position * 8)? {
        8 => Ok(u64::from_ne_bytes(word)),
        _ => Err(Errno::SRCH.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART: u64 = 64 * HUGE_BYTES;

    fn view(start: u64) -> RegionView {
        RegionView { start, resident_pages: 400, huge: false }
    }

    #[test]
    fn pages_speak_for_their_parts() {
        let parts = [view(PART), view(PART + HUGE_BYTES), view(PART + 2 * HUGE_BYTES)];
        let pages = [(PART + 4096, 10), (PART + 8192, 0), (PART + HUGE_BYTES, 5)];
        let found = estimated(&parts, &pages, 0.05);
        assert_eq!(found.len(), 2, "nothing is known of the third");
        assert_eq!(found[0].seen, MissedPages::Pages(vec![PART + 4096]));
        assert!(found[0].saturated && !found[1].saturated);
        let expected = 400.0 * 20f64.ln() / 0.005 / 2.0;
        assert!((found[0].misses_per_second - expected).abs() < 1e-6);
        assert!((found[1].misses_per_second - 400.0 * 2f64.ln() / 0.005).abs() < 1e-6);
        assert_eq!(estimated(&parts, &pages, 0.0), [], "it did not run");
    }

    #[test]
    fn frames_keep_apart() {
        let mut chosen: HashMap<u64, u64> = [0x5000, 0x1000, 0x2000, 0x3000, 0x9000].map(|f| (f, f)).into();
        assert_eq!(without_neighbours(&mut chosen), [0x1000, 0x3000, 0x5000, 0x9000]);
        assert!(!chosen.contains_key(&0x2000));
    }
}
