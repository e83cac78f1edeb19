//! Reads a process's page map in blocks into a [`Tally`].

use super::colors::Frames;
use super::distinct_pages::DistinctPages;
use super::scan::Scanner;
use super::tally::{PageRun, Tally};
use super::{MappingPages, PAGE_BYTES, PagemapError, errno};
use crate::tracing::maps::Mapping;
use crate::tracing::sys::Pid;
use rustc_hash::FxHashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Words per read: 512 KB for 256 MB of memory.
const BLOCK: usize = 1 << 16;
/// The page is in the page table.
pub const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
/// The page belongs to a file or shared memory.
const FILE: u64 = 1 << 61;
/// Log2 of the most pages of a file.
const FILE_PAGES_LOG: u32 = 51;
/// The bits of the frame number, 0 without the right to read it.
pub const FRAME: u64 = (1 << 55) - 1;

/// Reads one process's page map.
pub struct PagemapReader<'a> {
    pid: Pid,
    pagemap: &'a File,
    /// None if the kernel cannot scan: then each mapping is read in full.
    scanner: Option<Scanner>,
    frames: bool,
    words: Vec<u8>,
    tally: Tally,
    /// All runs, if they are wanted.
    runs: Option<Vec<PageRun>>,
    swapped_pages: u64,
    once: DistinctPages,
    /// Frames of huge pages.
    huge: DistinctPages,
    /// Without frames, a file's pages are identified by file and offset: a number for each file, by device and inode.
    files: FxHashMap<(u64, u64), u64>,
    /// Private pages, if frames are unknown.
    own_pages: u64,
}

/// A page map's contents.
pub struct PagemapContents {
    /// All runs.
    pub tally: Tally,
    /// Swapped-out pages.
    pub swapped_pages: u64,
    /// Distinct pages.
    pub distinct_pages: u64,
    /// Distinct pages that are mapped more than once.
    pub repeated_pages: u64,
    /// Mappings with pages, in order.
    pub mappings: Vec<MappingPages>,
    /// The frames, if readable.
    pub frames: Option<Frames>,
    /// All runs of pages in successive frames, if they were wanted.
    pub runs: Vec<PageRun>,
}

/// What to read.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Frame numbers.
    pub frames: bool,
    /// Whether the kernel can scan.
    pub scans: bool,
    /// Every run, which takes space as the process grows.
    pub runs: bool,
}

/// Reads `mappings`, which are in order.
pub fn walk(
    pid: Pid,
    pagemap: &File,
    mappings: Vec<Mapping>,
    Wanted { frames, scans, runs }: Wanted,
) -> Result<PagemapContents, PagemapError> {
    let scanner = scans.then(Scanner::new);
    let words = vec![0; BLOCK * 8];
    let tally = Tally::new(frames);
    let (once, files) = (DistinctPages::default(), FxHashMap::default());
    let mut walk = PagemapReader {
        pid,
        pagemap,
        scanner,
        frames,
        words,
        tally,
        runs: runs.then(Vec::new),
        swapped_pages: 0,
        once,
        huge: DistinctPages::default(),
        files,
        own_pages: 0,
    };
    let mut found = Vec::new();
    for mapping in mappings {
        if let Some(pages) = walk.mapping(mapping)? {
            found.push(pages);
        }
    }
    Ok(PagemapContents {
        distinct_pages: walk.once.pages + walk.own_pages,
        repeated_pages: walk.once.repeated,
        tally: walk.tally,
        swapped_pages: walk.swapped_pages,
        mappings: found,
        frames: frames.then_some(Frames { all: walk.once, huge: walk.huge }),
        runs: walk.runs.unwrap_or_default(),
    })
}

impl PagemapReader<'_> {
    fn mapping(&mut self, mapping: Mapping) -> Result<Option<MappingPages>, PagemapError> {
        let (pages, huge_pages) = (self.tally.pages, self.tally.huge_pages);
        let (virtual_runs, ranges) = self.tally.run_counts();
        let rights = mapping.protection as u8;
        if self.scanner.is_some() {
            self.scan(&mapping, rights)?;
        } else {
            self.read(&mapping, mapping.start, mapping.end, rights, false)?;
        }
        let pages = self.tally.pages - pages;
        let begun = self.tally.run_counts();
        let of_mapping = || MappingPages {
            start: mapping.start,
            end: mapping.end,
            rights,
            name: mapping.name,
            pages,
            huge_pages: self.tally.huge_pages - huge_pages,
            virtual_runs: begun.0 - virtual_runs,
            ranges: self.frames.then_some(begun.1 - ranges),
        };
        Ok((pages > 0).then(of_mapping))
    }

    /// Asks the kernel where pages are, and reads frames only there.
    fn scan(&mut self, mapping: &Mapping, rights: u8) -> Result<(), PagemapError> {
        let mut scanner = self.scanner.take().expect("asked for by the caller");
        let mut start = mapping.start;
        while start < mapping.end {
            let (regions, next) = scanner.scan(self.pagemap, start, mapping.end).map_err(|error| {
                if error.raw_os_error() == Some(errno::ESRCH) {
                    PagemapError::Ended(self.pid)
                } else {
                    PagemapError::Read { pid: self.pid, error }
                }
            })?;
            for region in regions {
                if !region.present() {
                    self.swapped_pages += region.pages();
                } else if self.frames {
                    self.read(mapping, region.start, region.end, rights, region.huge())?;
                } else {
                    self.count(mapping, region.start / PAGE_BYTES, region.pages(), region.of_file());
                    let (first, pages) = (region.start / PAGE_BYTES, region.pages());
                    self.tally.add(PageRun { first, frame: None, pages, rights, huge: region.huge() });
                }
            }
            start = next;
        }
        self.scanner = Some(scanner);
        Ok(())
    }

    /// Reads `[start, end)` word by word.
    fn read(
        &mut self,
        mapping: &Mapping,
        start: u64,
        end: u64,
        rights: u8,
        huge: bool,
    ) -> Result<(), PagemapError> {
        let (mut page, end) = (start / PAGE_BYTES, end / PAGE_BYTES);
        while page < end {
            let wanted = ((end - page) as usize).min(BLOCK) * 8;
            let read = self.pagemap.read_at(&mut self.words[..wanted], page * 8);
            let read = read.map_err(|error| PagemapError::Read { pid: self.pid, error })? / 8;
            if read == 0 {
                return Err(PagemapError::Ended(self.pid));
            }
            self.take(mapping, page, read, rights, huge);
            page += read as u64;
        }
        Ok(())
    }

    /// Counts pages whose frames are unknown.
    fn count(&mut self, mapping: &Mapping, first: u64, pages: u64, of_file: bool) {
        if !of_file || mapping.inode == 0 {
            self.own_pages += pages;
            return;
        }
        let next = self.files.len() as u64;
        let file = *self.files.entry((mapping.device, mapping.inode)).or_insert(next);
        let place = first - mapping.start / PAGE_BYTES + mapping.offset / PAGE_BYTES;
        self.once.add((file << FILE_PAGES_LOG).wrapping_add(place), pages);
    }

    /// Turns the read words into runs.
    fn take(&mut self, mapping: &Mapping, first: u64, count: usize, rights: u8, huge: bool) {
        let mut run: Option<PageRun> = None;
        let words = std::mem::take(&mut self.words);
        for (page, word) in (first..).zip(words[..count * 8].as_chunks::<8>().0) {
            let word = u64::from_ne_bytes(*word);
            if word & PRESENT == 0 {
                self.swapped_pages += u64::from(word & SWAPPED != 0);
                continue;
            }
            let frame = self.frames.then_some(word & FRAME);
            if frame.is_none() {
                self.count(mapping, page, 1, word & FILE != 0);
            }
            match &mut run {
                Some(run)
                    if run.first + run.pages == page && run.frame.map(|frame| frame + run.pages) == frame =>
                {
                    run.pages += 1;
                }
                _ => {
                    let next = PageRun { first: page, frame, pages: 1, rights, huge };
                    run.replace(next).into_iter().for_each(|ended| self.end(ended));
                }
            }
        }
        run.into_iter().for_each(|ended| self.end(ended));
        self.words = words;
    }

    /// Adds a finished run.
    fn end(&mut self, run: PageRun) {
        if let Some(frame) = run.frame {
            self.once.add(frame, run.pages);
            if run.huge {
                self.huge.add(frame, run.pages);
            }
        }
        self.tally.add(run);
        if let Some(runs) = &mut self.runs {
            runs.push(run);
        }
    }
}
