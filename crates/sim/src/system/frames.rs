//! Physical memory beneath the caches: the frames of pages, and the pages that kernels move to other colors.

use super::System;
use super::kernel::OwnMemory;
use super::process::{Memory, Process};
use super::walks::PlacedWait;
use crate::caches::logical;
use pagewalk_cache::{CacheAddress, LineAccess, Requester};
use pagewalk_mm::frames::{Frame, FrameMove};
use pagewalk_mm::promotion::{CacheMiss, Footprint, TlbDrops};
use pagewalk_mm::{Kernel, Superpage};
use pagewalk_units::{Kind, VirtAddr};

const SLOTS: usize = 256;

/// Set in physical addresses of pages without frames: the kernel's half of an address space, which no page of a program
/// reaches, and beyond the largest memory.
const UNOWNED: u64 = 1 << (VirtAddr::BITS - 1);

/// The physical address of policies' code, which their data follow: the kernel's, beyond all frames of programs.
const POLICY_CODE: u64 = UNOWNED;

/// What a system knows of frames.
pub(super) struct Frames {
    /// Whether kernels give pages frames. Otherwise physical addresses equal virtual ones.
    exist: bool,
    /// Whether kernels place pages by color.
    pub by_color: bool,
    /// Whether kernels watch a cache.
    are_watched: bool,
    /// Whether the frame of each page is asked for anew, for the slow twin.
    pub ask_anew: bool,
    /// Frames of recently used pages of the running process, until a mapping changes or another process runs.
    slots: Box<[KnownFrame; SLOTS]>,
}

#[derive(Clone, Copy)]
struct KnownFrame {
    vpn: u64,
    epoch: u64,
    /// The physical address of its first byte.
    start: u64,
}

const UNKNOWN: KnownFrame = KnownFrame { vpn: u64::MAX, epoch: 0, start: 0 };

impl Frames {
    /// Frames under a kernel, which may watch a cache.
    pub fn new(kernel: Option<&Kernel>, are_watched: bool) -> Frames {
        Frames {
            exist: kernel.is_some_and(Kernel::has_frames),
            by_color: kernel.is_some_and(|kernel| kernel.colors_by().is_some()),
            are_watched,
            ask_anew: false,
            slots: Box::new([UNKNOWN; SLOTS]),
        }
    }

    /// Whether pages have frames.
    pub fn exist(&self) -> bool {
        self.exist
    }

    /// Whether accesses of a cache may make kernels work.
    pub fn are_watched(&self) -> bool {
        self.are_watched
    }

    #[inline(always)]
    fn get(&self, vpn: u64, epoch: u64) -> Option<u64> {
        let known = &self.slots[vpn as usize % SLOTS];
        (known.vpn == vpn && known.epoch == epoch).then_some(known.start)
    }

    fn note(&mut self, vpn: u64, epoch: u64, start: u64) {
        self.slots[vpn as usize % SLOTS] = KnownFrame { vpn, epoch, start };
    }
}

impl System {
    /// The address of a touched page's byte, as caches see it. The kernel's half of addresses has no frames.
    #[inline]
    pub(super) fn cache_address(&mut self, address: VirtAddr) -> CacheAddress {
        let same = CacheAddress::same(logical(self.asid, address));
        if !self.frames.exist || address.is_kernel() {
            return same;
        }
        let base = self.machine().paging.base();
        let (vpn, offset) = (base.number(address), address.0 & (base.bytes() - 1));
        let known = self.frames.get(vpn, self.known.epoch());
        match known.or_else(|| self.find_frame(vpn)) {
            Some(start) => CacheAddress { physical: start + offset, ..same },
            // A page without a frame, such as an inherited one, lies beyond all frames.
            None => CacheAddress { physical: same.physical | UNOWNED, ..same },
        }
    }

    /// The physical address of a page, if it has a frame.
    #[inline(never)]
    fn find_frame(&mut self, vpn: u64) -> Option<u64> {
        let Frame(frame) = self.process().kernel()?.place(vpn)?;
        let start = frame << self.machine().paging.base().shift();
        if !self.frames.ask_anew {
            self.frames.note(vpn, self.known.epoch(), start);
        }
        Some(start)
    }

    /// Gives a translated reference to the caches of memory, page by page; their misses may make the kernel work.
    #[inline]
    pub(super) fn access(&mut self, kind: Kind, address: VirtAddr, bytes: u64) {
        if !self.frames.exist {
            let at = CacheAddress::same(logical(self.asid, address));
            return self.access_caches(kind, at, address, bytes);
        }
        let base = self.machine().paging.base();
        let (mut start, end) = (address.0, address.0 + bytes.max(1));
        while start < end {
            let page_end = (start | (base.bytes() - 1)) + 1;
            self.access_page(kind, VirtAddr(start), end.min(page_end) - start);
            start = page_end;
        }
    }

    /// A reference to one page.
    #[inline(always)]
    fn access_page(&mut self, kind: Kind, address: VirtAddr, bytes: u64) {
        let at = self.cache_address(address);
        self.access_caches(kind, at, address, bytes);
        let base = self.machine().paging.base();
        self.tell_cache_accesses(base.number(address));
    }

    /// Gives a translated reference inside a page to the caches. Returns whether the kernel must hear of it.
    #[inline(always)]
    pub(super) fn access_quietly(&mut self, kind: Kind, address: VirtAddr, bytes: u32) -> bool {
        let at = self.cache_address(address);
        self.access_caches(kind, at, address, bytes.into());
        self.tlbs().hierarchy().is_some_and(|hierarchy| hierarchy.has_logged())
    }

    /// Gives a reference to `address` to the caches, and keeps what it misses if who pays is kept.
    #[inline(always)]
    fn access_caches(&mut self, kind: Kind, at: CacheAddress, address: VirtAddr, bytes: u64) {
        match self.observed.is_some() {
            true => self.access_telling(kind, at, address, bytes),
            false => self.tlbs().access(kind, at, bytes),
        }
    }

    #[inline(never)]
    fn access_telling(&mut self, kind: Kind, at: CacheAddress, address: VirtAddr, bytes: u64) {
        let memory = self.tlbs().memory.as_mut();
        let waits = memory.and_then(|memory| memory.access_telling(kind, at, bytes));
        if let (Some(waits), Some(observed)) = (waits, &mut self.observed) {
            observed.note_wait(PlacedWait { address, waits, at: self.at });
        }
    }

    /// Reports accesses of the watched cache by a reference to a page, or by its walk.
    #[inline(always)]
    pub(super) fn tell_cache_accesses(&mut self, vpn: u64) {
        if self.frames.are_watched {
            self.tell_watched_accesses(vpn);
        }
    }

    #[inline(never)]
    fn tell_watched_accesses(&mut self, vpn: u64) {
        let Some(hierarchy) = self.tlbs().hierarchy().filter(|hierarchy| hierarchy.has_logged()) else {
            return;
        };
        let logged = hierarchy.logged();
        let shift = self.machine().paging.base().shift();
        let has_missed = logged.iter().any(|access| !access.hit);
        let cycles = if has_missed { self.cycles() } else { 0 };
        let is_kernels = VirtAddr(vpn << shift).is_kernel();
        let Some(kernel) = self.process().kernel() else { return };
        for LineAccess { requester, address, hit } in logged {
            let frame = Frame(address >> shift);
            let page = (requester != Requester::Walk && !is_kernels).then_some(vpn);
            match hit {
                true => kernel.cache_hit(frame),
                false => kernel.cache_missed(CacheMiss { page, frame, cycles }),
            }
        }
        if has_missed {
            self.drop_wanted();
            self.recolor();
        }
    }

    /// Cycles so far, for times of policies: executed instructions, waits for memory and walks on this core, and the
    /// work of the running process's kernel.
    pub(super) fn cycles(&mut self) -> u64 {
        let executed = self.clock.instructions as f64 * self.machine().cost.cycles_per_instruction;
        let tlbs = self.tlbs();
        let waited = tlbs.memory_counts().map_or(0, |memory| memory.stall_cycles);
        let walked = tlbs.counts.walk_cycles;
        let worked = self.process().kernel().map_or(0, |kernel| kernel.accounts().total());
        (executed as u64).saturating_add(waited).saturating_add(walked).saturating_add(worked)
    }

    /// Drops translations that the kernel's policy wants dropped.
    pub(super) fn drop_wanted(&mut self) {
        let wanted = self.process().kernel().map_or(TlbDrops::Nothing, Kernel::drops);
        match wanted {
            TlbDrops::Nothing => {}
            TlbDrops::Page(first) => {
                self.known.dropped();
                let unit = self.process().kernel().and_then(|kernel| kernel.table().mapped(first));
                self.drop_block(unit.unwrap_or(Superpage::around(first, 0)), true);
            }
            TlbDrops::All => {
                self.known.dropped();
                let asid = self.asid;
                for core in 0..self.cores.len() {
                    let left = self.cores[core].tlbs.flush(asid);
                    self.tell(super::moves::TlbMoves::left(left));
                }
            }
        }
    }

    /// Moves pages that the kernel's policy wants moved. Its work and the copies go through the caches.
    pub(super) fn recolor(&mut self) {
        let shift = self.machine().paging.base().shift();
        let Process { space, memory: Memory::Own(own), .. } = self.process() else { return };
        let OwnMemory { kernel, .. } = own.as_mut();
        let touched = kernel.policy_touched();
        let mut remaps = Vec::new();
        let moves = kernel.recolor(space, &mut remaps);
        if moves.is_empty() && touched == Footprint::default() {
            return;
        }
        self.remap(remaps, None);
        if touched.code > 0 {
            // Fetches from the program's present line may miss again.
            self.known.dropped();
        }
        let hierarchy = self.tlbs().hierarchy();
        let waited = hierarchy.map_or(0, |caches| {
            let fetched = caches.read(Requester::Fetch, POLICY_CODE, touched.code);
            let loaded = caches.read(Requester::Load, POLICY_CODE + Footprint::MAX, touched.data);
            let copy = |of: &FrameMove| caches.copy(of.from.0 << shift, of.to.0 << shift, 1 << shift);
            moves.iter().map(copy).fold(fetched.saturating_add(loaded), u64::saturating_add)
        });
        if let Some(kernel) = self.process().kernel() {
            kernel.waited(waited);
        }
    }
}
