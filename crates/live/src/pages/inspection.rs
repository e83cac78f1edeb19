//! Measures a planned range: how much of it exists, and how much is on huge pages.

use super::host::HUGE_BYTES;
use crate::pagemap::scan::{PageSpan, Scanner};
use crate::tracing::maps::Mapping;
use std::fs::File;
use std::io;

/// A range at one moment, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RangeSnapshot {
    /// Mapped.
    pub mapped: u64,
    /// In 2 MiB blocks that lie whole in one mapping, as a huge page requires.
    pub whole: u64,
    /// In whole blocks with any page.
    pub touched: u64,
    /// In touched blocks that are not on huge pages.
    pub small: u64,
    /// Resident.
    pub resident: u64,
    /// Mapped by huge pages.
    pub huge: u64,
    /// Marked for huge pages, according to the kernel.
    pub marked: u64,
    /// Marked against huge pages.
    pub refused: u64,
    /// In mappings that may have huge pages, according to the kernel.
    pub eligible: u64,
    /// In mappings of files.
    pub of_files: u64,
    /// In hugetlb mappings.
    pub pools: u64,
}

impl RangeSnapshot {
    /// Whether this shows more than another.
    pub fn is_more_than(&self, other: &RangeSnapshot) -> bool {
        (self.huge, self.touched, self.mapped) > (other.huge, other.touched, other.mapped)
    }

    /// Whether it lies in hugetlb memory, where there is nothing to do.
    pub fn is_pool(&self) -> bool {
        self.mapped > 0 && self.pools * 2 > self.mapped
    }

    /// Whether nine tenths of what could be on huge pages are.
    pub fn is_huge(&self) -> bool {
        self.touched > 0 && self.huge * 10 >= self.touched * 9
    }
}

/// Measures `spans` (starts and lengths) of mappings with `smaps` details.
///
/// # Errors
/// If the process has ended, or the kernel has no `PAGEMAP_SCAN`.
pub fn measure(pagemap: &File, mappings: &[Mapping], spans: &[(u64, u64)]) -> io::Result<RangeSnapshot> {
    let mut seen = RangeSnapshot::default();
    for &(start, bytes) in spans {
        for mapping in mappings.iter().filter(|mapping| mapping.start < start + bytes && mapping.end > start)
        {
            let (from, to) = (mapping.start.max(start), mapping.end.min(start + bytes));
            let part = |holds: bool| if holds { to - from } else { 0 };
            seen.mapped += to - from;
            seen.marked += part(mapping.huge_wanted);
            seen.refused += part(mapping.huge_refused);
            seen.eligible += part(mapping.huge_eligible);
            seen.of_files += part(mapping.inode != 0);
            seen.pools += part(mapping.is_pool);
            let whole = (from.next_multiple_of(HUGE_BYTES), to / HUGE_BYTES * HUGE_BYTES);
            seen.whole += whole.1.saturating_sub(whole.0);
            count(pagemap, (from, to), whole, &mut seen)?;
        }
    }
    Ok(seen)
}

/// Counts the pages of `[from, to)`.
fn count(
    pagemap: &File,
    (from, to): (u64, u64),
    whole: (u64, u64),
    seen: &mut RangeSnapshot,
) -> io::Result<()> {
    let mut scanner = Scanner::new();
    let (mut at, mut block) = (from, 0);
    while at < to {
        let (regions, next) = scanner.scan(pagemap, at, to)?;
        for region in regions {
            let bytes = region.end - region.start;
            seen.resident += if region.present() { bytes } else { 0 };
            seen.huge += if region.huge() { bytes } else { 0 };
            let touched = newly_touched(region, whole, &mut block);
            seen.touched += touched;
            seen.small += if region.huge() { 0 } else { touched };
        }
        at = next;
    }
    Ok(())
}

/// Bytes of whole blocks of which a region has the first page; `block` is the first block not counted yet.
fn newly_touched(region: &PageSpan, (first, last): (u64, u64), block: &mut u64) -> u64 {
    let from = (region.start / HUGE_BYTES * HUGE_BYTES).max(first).max(*block);
    let to = region.end.next_multiple_of(HUGE_BYTES).min(last);
    if from >= to {
        return 0;
    }
    *block = to;
    to - from
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracing::maps::detailed_mappings;
    use crate::tracing::sys::Pid;

    #[test]
    fn this_process_has_small_pages_in_a_vector() {
        let pid = std::process::id() as Pid;
        let memory = vec![1u8; 5 << 20];
        let start = memory.as_ptr() as u64 / 4096 * 4096;
        let pagemap = File::open("/proc/self/pagemap").unwrap();
        let Ok(seen) = measure(&pagemap, &detailed_mappings(pid).unwrap(), &[(start, 5 << 20)]) else {
            return;
        };
        assert_eq!((seen.mapped, seen.resident), (5 << 20, 5 << 20));
        assert!(seen.whole >= 2 << 20 && seen.touched == seen.whole, "{seen:?}");
        assert!(seen.small + seen.huge >= seen.touched && seen.small <= seen.touched, "{seen:?}");
        assert_eq!(seen.of_files, 0);
        drop(memory);
    }
}
