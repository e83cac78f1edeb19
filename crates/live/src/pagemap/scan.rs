//! `PAGEMAP_SCAN` (Linux 6.7): finds a process's pages, and which are huge, without reading holes.

use crate::tracing::sys;
use std::fs::File;
use std::io;

/// Consecutive pages of one kind.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageSpan {
    /// The first address.
    pub start: u64,
    /// The first address after it.
    pub end: u64,
    kind: u64,
}

impl PageSpan {
    /// Its base pages.
    pub fn pages(&self) -> u64 {
        (self.end - self.start) / super::PAGE_BYTES
    }

    /// Whether they are in the page table; if not, they are swapped out or in transit.
    pub fn present(&self) -> bool {
        self.kind & PRESENT != 0
    }

    /// Whether they belong to a file or shared memory.
    pub fn of_file(&self) -> bool {
        self.kind & FILE != 0
    }

    /// Whether huge pages map them: entries above the last page-table level.
    pub fn huge(&self) -> bool {
        self.kind & HUGE != 0
    }
}

const FILE: u64 = 1 << 2;
const PRESENT: u64 = 1 << 3;
const SWAPPED: u64 = 1 << 4;
const HUGE: u64 = 1 << 6;

/// `struct pm_scan_arg` of the kernel's `linux/fs.h`.
#[repr(C)]
#[derive(Default)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    regions: u64,
    regions_max: u64,
    pages_max: u64,
    inverted: u64,
    all_of: u64,
    any_of: u64,
    returned: u64,
}

/// `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: u64 = 0xc060_6610;

/// Reads regions into its own buffer.
pub struct Scanner {
    regions: Vec<PageSpan>,
}

impl Scanner {
    /// Regions per request.
    const REGIONS: usize = 4096;

    /// An empty buffer.
    pub fn new() -> Scanner {
        Scanner { regions: vec![PageSpan::default(); Scanner::REGIONS] }
    }

    /// Regions in `[start, end)` with present or swapped pages, as many as fit, and where to continue.
    ///
    /// # Errors
    /// The kernel's: `ESRCH` if the process has ended, `ENOTTY` before Linux 6.7.
    pub fn scan(&mut self, pagemap: &File, start: u64, end: u64) -> io::Result<(&[PageSpan], u64)> {
        let mut scan = Scan {
            size: size_of::<Scan>() as u64,
            start,
            end,
            regions: self.regions.as_mut_ptr() as u64,
            regions_max: self.regions.len() as u64,
            any_of: PRESENT | SWAPPED,
            returned: FILE | PRESENT | SWAPPED | HUGE,
            ..Scan::default()
        };
        let found = sys::ioctl(pagemap, PAGEMAP_SCAN, &mut scan)?;
        let regions = &self.regions[..found as usize];
        // If the number of regions is a multiple of 512, the size of its own buffer, Linux 6.18 reports an end before
        // the regions it returned: continuing there would repeat them.
        let next = regions.last().map_or(scan.walk_end, |last| last.end.max(scan.walk_end));
        // No progress would mean an endless loop.
        Ok((regions, if next > start { next } else { end }))
    }
}
