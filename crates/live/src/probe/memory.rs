//! Mappings for chases: plain memory in 4 KB or 2 MB pages, and a few frames mapped at very many pages.

use crate::pagemap::HUGE_PAGES;
use crate::pages::room_in_groups;
use crate::probe::ProbeError;
use crate::tracing::maps::bytes_in;
use crate::tracing::sys::{self, number};
use rustix::fd::OwnedFd;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::mm::{
    Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap, mmap_anonymous, mprotect, munmap,
};
use std::collections::HashSet;
use std::ffi::c_void;
use std::fs;
use std::ptr::null_mut;

/// Bytes of a base page.
pub const BASE: usize = 4096;
/// Bytes of a huge page.
pub const HUGE: usize = HUGE_PAGES as usize * BASE;

/// Frames behind [`Aliases`]: 64 KB. 8-byte nodes of a few thousand pages fill the first-level cache.
const FRAMES: usize = 16;
/// Nodes per frame.
const NODES: usize = BASE / 8;
/// `MADV_COLLAPSE`, which rustix lacks.
const COLLAPSE: u64 = 25;

/// The pages of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// 4 KB; huge pages forbidden.
    Base,
    /// 2 MB if the kernel has them.
    Huge,
    /// The kernel's choice.
    Default,
}

/// Address space of our own, unmapped when dropped.
#[derive(Debug)]
pub struct Space {
    mapped: *mut u8,
    mapped_bytes: usize,
    start: *mut u8,
    bytes: usize,
}

impl Space {
    /// Reserves inaccessible addresses from a multiple of `alignment`, a power of two of pages.
    ///
    /// # Errors
    /// If the kernel has no such room.
    pub fn reserve(bytes: usize, alignment: usize) -> Result<Space, ProbeError> {
        let mapped_bytes = bytes + alignment;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: the kernel chooses the address, so nothing of ours is replaced.
        let mapped = unsafe { mmap_anonymous(null_mut(), mapped_bytes, ProtFlags::empty(), flags) };
        let mapped = mapped.map_err(|error| ProbeError::map(bytes, error))?.cast::<u8>();
        let start = mapped.wrapping_add(mapped.addr().wrapping_neg() & (alignment - 1));
        Ok(Space { mapped, mapped_bytes, start, bytes })
    }

    /// Readable and writable memory, not touched yet.
    ///
    /// # Errors
    /// If the kernel has no such room, or refuses the pages.
    pub fn memory(bytes: usize, pages: Pages) -> Result<Space, ProbeError> {
        let space = Space::reserve(bytes, HUGE)?;
        space.open(0, bytes, pages)?;
        Ok(space)
    }

    /// Makes a part of the reserved addresses readable and writable.
    ///
    /// # Errors
    /// If the kernel refuses that, or the pages.
    pub fn open(&self, offset: usize, bytes: usize, pages: Pages) -> Result<(), ProbeError> {
        let part = self.part(offset, bytes);
        // SAFETY: the part is of our mapping, and nothing refers to it yet.
        unsafe { mprotect(part, bytes, MprotectFlags::READ | MprotectFlags::WRITE) }
            .map_err(|error| ProbeError::map(bytes, error))?;
        match pages {
            Pages::Default => Ok(()),
            // A kernel without huge pages rejects both advices, and has base pages only.
            Pages::Base => match self.advise(offset, bytes, Advice::LinuxNoHugepage) {
                Err(Errno::INVAL) => Ok(()),
                other => other.map_err(|error| ProbeError::map(bytes, error)),
            },
            Pages::Huge => self
                .advise(offset, bytes, Advice::LinuxHugepage)
                .map_err(|error| ProbeError::NoHugePages(format!("madvise(MADV_HUGEPAGE): {error}"))),
        }
    }

    /// The first address.
    pub fn start(&self) -> *mut u8 {
        self.start
    }

    /// The length.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Writes one byte in every `every`, as a program's first touch does. The part must be open.
    pub fn touch(&self, offset: usize, bytes: usize, every: usize) {
        let start = self.part(offset, bytes).cast::<u8>();
        for at in (0..bytes).step_by(every) {
            // SAFETY: within the part, which may be written; nothing refers to it.
            unsafe { start.add(at).write_volatile(1) };
        }
    }

    /// Drops the memory; the next touch is a first touch again.
    ///
    /// # Errors
    /// As the system call's.
    pub fn forget(&self) -> Result<(), Errno> {
        self.advise(0, self.bytes, Advice::LinuxDontNeed)
    }

    /// `madvise` on a part.
    ///
    /// # Errors
    /// As the system call's.
    pub fn advise(&self, offset: usize, bytes: usize, advice: Advice) -> Result<(), Errno> {
        // SAFETY: the part is of our mapping, and nothing but raw pointers refers to it.
        unsafe { madvise(self.part(offset, bytes), bytes, advice) }
    }

    /// Collapses a part into huge pages.
    ///
    /// # Errors
    /// As the system call's: `EINVAL` on kernels before 6.1.
    pub fn collapse(&self, offset: usize, bytes: usize) -> Result<(), std::io::Error> {
        let arguments = [self.part(offset, bytes).addr() as u64, bytes as u64, COLLAPSE, 0, 0, 0];
        // SAFETY: changes which frames stand behind our own mapping, never what is in them.
        unsafe { sys::call(number::MADVISE, arguments) }.map(drop)
    }

    fn part(&self, offset: usize, bytes: usize) -> *mut c_void {
        assert!(offset + bytes <= self.bytes, "{bytes} bytes at {offset} of a space of {}", self.bytes);
        self.start.wrapping_add(offset).cast()
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and whoever used it borrowed this.
        // An error would leave it mapped, which harms nothing.
        let _ = unsafe { munmap(self.mapped.cast(), self.mapped_bytes) };
    }
}

/// Bytes of this process on huge pages.
pub fn huge_bytes() -> u64 {
    let text = fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    bytes_in(&text, "AnonHugePages:").unwrap_or(0)
}

/// Whether this many bytes of huge pages are available now. Tries it: the kernel makes room as for any program. Also
/// false if the kernel gives none.
pub fn huge_pages_are_at_hand(bytes: usize) -> bool {
    let before = huge_bytes();
    let Ok(space) = Space::memory(bytes, Pages::Huge) else { return false };
    space.touch(0, bytes, HUGE);
    huge_bytes() >= before + bytes as u64
}

/// Available bytes without swapping, by the kernel's estimate, within the limits of our control groups.
pub fn available_bytes() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let free = bytes_in(&text, "MemAvailable:").unwrap_or(0);
    room_in_groups().map_or(free, |room| free.min(room))
}

/// Very many pages that share few frames: each node of a chase lies in its own page, and all nodes fit the first-level
/// cache. So more pages cost only translation. Neighbouring pages never have neighbouring frames, which some TLBs would
/// hold in one entry.
#[derive(Debug)]
pub struct Aliases {
    space: Space,
    frames: Space,
    file: OwnedFd,
    mapped: HashSet<usize>,
}

impl Aliases {
    /// Reserves room for `pages` pages, none mapped yet.
    ///
    /// # Errors
    /// If the kernel has no such room, or no memory files.
    pub fn reserve(pages: usize) -> Result<Aliases, ProbeError> {
        let space = Space::reserve(pages * BASE, 1 << 30)?;
        let frames = Space::reserve(FRAMES * BASE, BASE)?;
        let no_file = |error: Errno| ProbeError::NoSharedMemory(error.into());
        let file = memfd_create("pagewalk-probe", MemfdFlags::CLOEXEC).map_err(no_file)?;
        ftruncate(&file, (FRAMES * BASE) as u64).map_err(no_file)?;
        map_file(&frames, 0, FRAMES * BASE, &file, 0)?;
        Ok(Aliases { space, frames, file, mapped: HashSet::new() })
    }

    /// The address of node `number` in a page; maps the page if needed.
    ///
    /// # Errors
    /// If the kernel refuses another mapping.
    pub fn node(&mut self, page: usize, number: usize) -> Result<*mut u8, ProbeError> {
        if self.mapped.insert(page) {
            map_file(&self.space, page * BASE, BASE, &self.file, frame(page) * BASE)?;
        }
        // Nodes of one frame differ in `number`; the nodes of all frames spread over the cache's sets.
        let slot = (number / FRAMES + number % FRAMES * (NODES / FRAMES)) % NODES;
        Ok(self.space.start().wrapping_add(page * BASE + slot * 8))
    }

    /// Addresses of nodes in `pages`, which may repeat; each node has its own place. Nodes of a frame are adjacent, to
    /// take few lines; different frames use different sets of the cache. None if more than 512 of the pages share a
    /// frame.
    ///
    /// # Errors
    /// If the kernel refuses another mapping.
    pub fn nodes(&mut self, pages: &[u64]) -> Result<Option<Vec<*mut u8>>, ProbeError> {
        let mut used = [0; FRAMES];
        let mut nodes = Vec::with_capacity(pages.len());
        for &page in pages {
            let page = page as usize;
            let start = self.node(page, 0)?;
            let frame = frame(page);
            if used[frame] == NODES {
                return Ok(None);
            }
            let slot = (frame * (NODES / FRAMES) + used[frame]) % NODES;
            used[frame] += 1;
            nodes.push(start.wrapping_add(slot * 8));
        }
        Ok(Some(nodes))
    }

    /// Room, in pages.
    pub fn pages(&self) -> usize {
        self.space.bytes() / BASE
    }

    /// Bytes of the frames.
    pub fn frame_bytes(&self) -> usize {
        self.frames.bytes()
    }
}

/// The frame of a page.
fn frame(page: usize) -> usize {
    (page * 5 + 3) % FRAMES
}

/// Maps a part of a file into a part of a space and faults its pages in.
fn map_file(space: &Space, offset: usize, bytes: usize, file: &OwnedFd, at: usize) -> Result<(), ProbeError> {
    let flags = MapFlags::SHARED | MapFlags::FIXED | MapFlags::POPULATE;
    let rights = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: replaces a part of our own mapping, which nothing refers to.
    unsafe { mmap(space.part(offset, bytes), bytes, rights, flags, file, at as u64) }
        .map(drop)
        .map_err(|error| ProbeError::map(bytes, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn memory_is_aligned_and_zero_again_once_forgotten() {
        let space = Space::memory(2 * HUGE, Pages::Base).unwrap();
        assert_eq!(space.start().addr() % HUGE, 0);
        space.touch(0, 2 * HUGE, BASE);
        space.forget().unwrap();
        // SAFETY: within the space, which may be read.
        assert_eq!(unsafe { space.start().read_volatile() }, 0);
    }

    #[test]
    fn nodes_of_all_pages_have_places_of_their_own() {
        for (count, stride) in [(8192, 1), (40, 4), (40, 16), (40, 4096)] {
            let mut aliases = Aliases::reserve(count * stride).unwrap();
            let mut places = HashSet::new();
            for number in 0..count {
                let page = number * stride;
                let node = aliases.node(page, number).unwrap();
                assert!(places.insert((frame(page), node.addr() % BASE)), "{number} of {stride}");
            }
        }
    }

    #[test]
    fn pages_that_come_again_have_another_node_each_time() {
        let mut aliases = Aliases::reserve(1024).unwrap();
        let pages: Vec<u64> = (0..512).map(|at| at % 3 * 64 + at % 2).collect();
        let nodes = aliases.nodes(&pages).unwrap().expect("few enough");
        let places: HashSet<_> = pages
            .iter()
            .zip(&nodes)
            .map(|(page, node)| (frame(*page as usize), node.addr() % BASE))
            .collect();
        assert_eq!(places.len(), pages.len());
        for (page, node) in pages.iter().zip(&nodes) {
            assert_eq!((node.addr() - aliases.space.start().addr()) / BASE, *page as usize);
        }
        assert_eq!(aliases.nodes(&[16; NODES + 1]).unwrap(), None, "a frame has no more");
    }

    #[test]
    fn aliases_show_the_same_frame() {
        let mut aliases = Aliases::reserve(64).unwrap();
        let (one, other) = (aliases.node(1, 1).unwrap(), aliases.node(17, 1).unwrap());
        // SAFETY: both are mapped and may be written; nothing else refers to them.
        unsafe {
            one.cast::<u64>().write_volatile(7);
            assert_eq!(other.cast::<u64>().read_volatile(), 7);
        }
        assert_eq!((aliases.pages(), aliases.frame_bytes()), (64, FRAMES * BASE));
    }
}
