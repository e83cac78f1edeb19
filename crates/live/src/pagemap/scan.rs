//! `PAGEMAP_SCAN` (Linux 6.7): where a process has pages and which of them are huge, without reading holes.

use crate::tracing::sys;
use std::fs::File;
use std::io;

/// Pages of one kind that follow each other.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Region {
    /// Address of the first.
    pub start: u64,
    /// Behind the last.
    pub end: u64,
    kind: u64,
}

impl Region {
    /// Pages of 4,096 bytes.
    pub fn pages(&self) -> u64 {
        (self.end - self.start) / super::PAGE_BYTES
    }

    /// Whether a page table maps them; if not, they are swapped out or on their way.
    pub fn present(&self) -> bool {
        self.kind & PRESENT != 0
    }

    /// Whether they are pages of a file, or of memory that is shared as one.
    pub fn of_file(&self) -> bool {
        self.kind & FILE != 0
    }

    /// Whether huge pages map them: an entry above the last level of page tables.
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

/// Reads regions into a buffer of its own.
pub struct Scanner {
    regions: Vec<Region>,
}

impl Scanner {
    /// As many regions are asked for at once.
    const REGIONS: usize = 4096;

    /// Nothing is read yet.
    pub fn new() -> Scanner {
        Scanner { regions: vec![Region::default(); Scanner::REGIONS] }
    }

    /// Regions in `[start, end)` with pages that are present or swapped, up to as many as fit, and where to go on.
    ///
    /// # Errors
    /// The kernel's: `ESRCH` when the process has ended, `ENOTTY` before Linux 6.7.
    pub fn scan(&mut self, pagemap: &File, start: u64, end: u64) -> io::Result<(&[Region], u64)> {
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
        // Linux 6.18 says that it came to an earlier place than the regions that it gave, where their number is a
        // multiple of 512, its own buffer's: from there they would come again.
        let next = regions.last().map_or(scan.walk_end, |last| last.end.max(scan.walk_end));
        // A walk that got nowhere would be asked for again for ever.
        Ok((regions, if next > start { next } else { end }))
    }
}
