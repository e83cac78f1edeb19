//! How TLB designs fit a live process's memory: its pages, their frames, and how few entries of each design map them.
//!
//! `/proc/PID/maps` lists mappings, the ioctl `PAGEMAP_SCAN` finds their pages and which are huge, and
//! `/proc/PID/pagemap` has their frames. Memory is read in blocks and only counted, so the space needed does not grow
//! with the process. The process is not stopped: a change during the reading may or may not be seen.
//!
//! Sources of the designs: Pham, Vaidyanathan, Jaleel, Bhattacharjee, "CoLT: Coalesced Large-Reach TLBs", MICRO 2012;
//! Pham, Bhattacharjee, Eckert, Loh, "Increasing TLB Reach by Exploiting Clustering in Page Translations", HPCA 2014;
//! Basu, Gandhi, Chang, Hill, Swift, "Efficient Virtual Memory for Big Memory Servers", ISCA 2013 (direct segments);
//! Karakostas et al., "Redundant Memory Mappings for Fast Access to Large Memories", ISCA 2015 (ranges).

mod colors;
mod distinct_pages;
mod exit;
mod host_cache;
pub(crate) mod scan;
mod sizes;
mod smaps;
mod tally;
mod walk;

pub use colors::{Frames, PagesByColor};
pub use exit::{Exit, PeakSnapshot, SnapshotTime, run_to_exit};
pub use host_cache::{HostCache, HostCacheError};
pub use sizes::Sizes;
pub use tally::{Designs, HUGE_PAGES, PageRun, Tally};

use crate::tracing::maps::{self, Mapping};
use crate::tracing::sys::Pid;
use scan::Scanner;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use walk::{PagemapContents, Wanted, walk};

/// Bytes of a base page.
pub const PAGE_BYTES: u64 = 4096;

/// Error numbers.
mod errno {
    pub const ESRCH: i32 = 3;
    pub const ENOTTY: i32 = 25;
}

/// Why a page map could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PagemapError {
    /// No such process.
    #[error("there is no process {0}")]
    NoProcess(Pid),
    /// Another user's process, or one that gained rights.
    #[error("this user may not read the page map of process {pid}: {error}")]
    Forbidden {
        /// The process.
        pid: Pid,
        /// The reason.
        error: io::Error,
    },
    /// No memory.
    #[error("process {0} has no memory: it is a thread of the kernel, or has ended and nobody waited for it")]
    NoMemory(Pid),
    /// Ended during the reading.
    #[error("process {0} ended, or became another program, while its page map was read")]
    Ended(Pid),
    /// Not in this kernel.
    #[error("this kernel has no /proc/PID/pagemap")]
    NoPagemap,
    /// Anything else.
    #[error("reading the page map of process {pid}: {error}")]
    Read {
        /// The process.
        pid: Pid,
        /// The reason.
        error: io::Error,
    },
}

impl PagemapError {
    /// How to enable it.
    pub fn enable(&self) -> &'static str {
        match self {
            PagemapError::NoProcess(_) => "`ps -e` lists the processes; in a container only its own",
            PagemapError::Forbidden { .. } => {
                "be root or have the capability CAP_SYS_PTRACE, or be the process's own user, if it has not gained \
                 rights (set-user-ID)"
            }
            PagemapError::NoMemory(_) => "choose a program that runs",
            PagemapError::Ended(_) => "read it again while it runs, or start it: pagewalk contiguity -- CMD",
            PagemapError::NoPagemap => "a kernel with CONFIG_PROC_PAGE_MONITOR, and /proc mounted",
            PagemapError::Read { .. } => "read it again",
        }
    }
}

/// How to let this user read frame numbers.
pub const ENABLE_FRAMES: &str = "run pagewalk as root (sudo), or with the capability CAP_SYS_ADMIN; in a container, \
                                 one that has it (--privileged), without user namespaces";

/// A mapping with pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappingPages {
    /// Its first address.
    pub start: u64,
    /// The first address after it.
    pub end: u64,
    /// Read 1, write 2, execute 4.
    pub rights: u8,
    /// The file, or the kernel's name for it; empty for plain memory.
    pub name: String,
    /// Present pages.
    pub pages: u64,
    /// Pages of it mapped by huge pages; 0 if their places are unknown.
    pub huge_pages: u64,
    /// Runs of pages that begin in it.
    pub virtual_runs: u64,
    /// Runs of pages with consecutive frames that begin in it, if frame numbers are readable.
    pub ranges: Option<u64>,
}

/// A process's memory at one time.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Base pages in page tables, each counted as often as it is mapped.
    pub pages: u64,
    /// Distinct pages: by frame, or if frames are unreadable, by file and offset.
    pub distinct_pages: u64,
    /// Distinct pages that are mapped more than once.
    pub repeated_pages: u64,
    /// Pages mapped by huge pages.
    pub huge_pages: u64,
    /// Whether the kernel shows where huge pages are; if not, and there are some, designs restricted to one page size
    /// per entry are `None`.
    pub huge_places: bool,
    /// Swapped-out pages.
    pub swapped_pages: u64,
    /// The frames; if they were unreadable, designs that need them are `None`, too.
    pub frames: Option<Frames>,
    /// Entries of each design.
    pub designs: Designs,
    /// Mappings with pages, in order.
    pub mappings: Vec<MappingPages>,
}

/// Reads the page map of a process or thread.
///
/// # Errors
/// If it does not exist, belongs to another user, has no memory, or ends meanwhile.
pub fn snapshot(pid: Pid) -> Result<Snapshot, PagemapError> {
    let pagemap = open(pid)?;
    // This file stays with the present memory: if the mappings were a later program's, reading it would report an end.
    let mappings = user_mappings(pid)?;
    let scans = mappings.first().is_none_or(|mapping| can_scan(&pagemap, mapping));
    snapshot_with(pid, &pagemap, mappings, scans)
}

fn snapshot_with(
    pid: Pid,
    pagemap: &File,
    mappings: Vec<Mapping>,
    scans: bool,
) -> Result<Snapshot, PagemapError> {
    let frames = tells_frames(pagemap, &mappings);
    let walked = walk(pid, pagemap, mappings, Wanted { frames, scans, runs: false })?;
    let (pages, mut huge_pages) = (walked.tally.pages, walked.tally.huge_pages);
    let mut designs = walked.tally.finish();
    let mut huge_places = true;
    if !scans {
        // Their bytes only; the process may have changed since.
        let told = smaps::huge_pages(pid).map_err(|error| PagemapError::Read { pid, error })?;
        huge_pages = told.min(pages / HUGE_PAGES * HUGE_PAGES);
        if huge_pages > 0 {
            huge_places = false;
            designs.as_mapped = Sizes::new();
            designs.as_mapped.add(HUGE_PAGES, huge_pages / HUGE_PAGES);
            designs.as_mapped.add(1, pages - huge_pages);
            (designs.coalesced, designs.clustered, designs.hinted) = (None, None, None);
        }
    }
    let PagemapContents { swapped_pages, distinct_pages, repeated_pages, mappings, frames, .. } = walked;
    Ok(Snapshot {
        pages,
        distinct_pages,
        repeated_pages,
        huge_pages,
        huge_places,
        swapped_pages,
        frames,
        designs,
        mappings,
    })
}

/// The pages of a process in runs of successive frames, in order; `None` if frame numbers are unreadable. This takes
/// space for each run.
///
/// # Errors
/// As [`snapshot`].
pub fn page_runs(pid: Pid) -> Result<Option<Vec<PageRun>>, PagemapError> {
    let pagemap = open(pid)?;
    let mappings = user_mappings(pid)?;
    let scans = mappings.first().is_none_or(|mapping| can_scan(&pagemap, mapping));
    if !tells_frames(&pagemap, &mappings) {
        return Ok(None);
    }
    Ok(Some(walk(pid, &pagemap, mappings, Wanted { frames: true, scans, runs: true })?.runs))
}

/// Opens a process's page map.
pub(crate) fn open(pid: Pid) -> Result<File, PagemapError> {
    File::open(format!("/proc/{pid}/pagemap")).map_err(|error| match error.kind() {
        // Processes without memory belong to root.
        io::ErrorKind::PermissionDenied if has_no_memory(pid) => PagemapError::NoMemory(pid),
        io::ErrorKind::PermissionDenied => PagemapError::Forbidden { pid, error },
        io::ErrorKind::NotFound if File::open("/proc/self/pagemap").is_err() => PagemapError::NoPagemap,
        io::ErrorKind::NotFound => PagemapError::NoProcess(pid),
        _ if error.raw_os_error() == Some(errno::ESRCH) => PagemapError::NoMemory(pid),
        _ => PagemapError::Read { pid, error },
    })
}

fn has_no_memory(pid: Pid) -> bool {
    fs::read_to_string(format!("/proc/{pid}/statm")).is_ok_and(|text| text.starts_with("0 "))
}

/// The accessible mappings in the user half of the address space.
pub(crate) fn user_mappings(pid: Pid) -> Result<Vec<Mapping>, PagemapError> {
    let mut mappings = maps::mappings(pid).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => PagemapError::Forbidden { pid, error },
        io::ErrorKind::NotFound => PagemapError::Ended(pid),
        _ if error.raw_os_error() == Some(errno::ESRCH) => PagemapError::Ended(pid),
        _ => PagemapError::Read { pid, error },
    })?;
    // [vsyscall] is the kernel's own page, and a TLB holds nothing of memory without rights.
    mappings.retain(|mapping| mapping.start < 1 << 63 && mapping.protection != 0);
    if mappings.is_empty() { Err(PagemapError::NoMemory(pid)) } else { Ok(mappings) }
}

/// Whether the kernel has `PAGEMAP_SCAN`. Other failures show up again later.
fn can_scan(pagemap: &File, mapping: &Mapping) -> bool {
    let tried = Scanner::new().scan(pagemap, mapping.start, mapping.start + PAGE_BYTES).map(drop);
    tried.err().is_none_or(|error| error.raw_os_error() != Some(errno::ENOTTY))
}

/// Whether this process may read frame numbers: the kernel shows zeros without `CAP_SYS_ADMIN`.
///
/// # Errors
/// If this process cannot even read its own page map.
pub fn frames_readable() -> Result<bool, PagemapError> {
    let own = std::process::id() as Pid;
    Ok(tells_frames(&open(own)?, &user_mappings(own)?))
}

/// Whether the first present page has a frame number: no program gets frame 0 of a PC.
fn tells_frames(pagemap: &File, mappings: &[Mapping]) -> bool {
    let mut words = vec![0; HUGE_PAGES as usize * 8];
    let first = mappings.iter().find_map(|mapping| {
        let wanted = (mapping.bytes() / PAGE_BYTES).min(HUGE_PAGES) as usize * 8;
        // The walk reports what cannot be read.
        let read = pagemap.read_at(&mut words[..wanted], mapping.start / PAGE_BYTES * 8).unwrap_or(0);
        let mut words = words[..read].as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word));
        words.find(|word| word & walk::PRESENT != 0)
    });
    first.is_some_and(|word| word & walk::FRAME != 0)
}

/// A process's peak memory in bytes, by the kernel's count.
pub fn peak_resident_bytes(pid: Pid) -> Option<u64> {
    maps::bytes_in(&maps::proc_text(pid, "status").ok()?, "VmHWM:")
}

/// A process's program, or `unknown`.
pub fn program(pid: Pid) -> String {
    maps::program(pid)
}

/// A process's command line; empty if unreadable.
pub fn command_line(pid: Pid) -> Vec<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = bytes.strip_suffix(b"\0").unwrap_or(&bytes);
    if words.is_empty() {
        return Vec::new();
    }
    words.split(|&byte| byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    /// Without `PAGEMAP_SCAN` everything is read, with the same result for a program without huge pages.
    #[test]
    fn reading_everything_finds_what_scanning_does() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let pid = child.id() as Pid;
        let state = || fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        while !(program(pid).ends_with("/cat") && state().contains(") S ")) {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let read = |scans| {
            let mappings = user_mappings(pid).unwrap();
            snapshot_with(pid, &open(pid).unwrap(), mappings, scans).unwrap()
        };
        let all = read(false);
        assert!(all.pages > 50 && all.huge_places);
        if can_scan(&open(pid).unwrap(), &user_mappings(pid).unwrap()[0]) {
            let scanned = read(true);
            assert_eq!((all.designs, all.mappings), (scanned.designs, scanned.mappings));
            assert_eq!(
                (all.distinct_pages, all.repeated_pages),
                (scanned.distinct_pages, scanned.repeated_pages)
            );
        }
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
