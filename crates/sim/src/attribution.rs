//! Attribution: walks, waits and references of the first design by page and by mapping, and their observer.

use pagewalk_cache::LEVELS;
use pagewalk_mm::{AddressSpace, MappingId};
use pagewalk_trace::{Block, Event, Mapping};
use pagewalk_translate::Asid;
use pagewalk_units::{PageSize, VirtAddr};
use std::ops::Range;

/// A walk of the first machine, for its observer.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Walk<'a> {
    /// The running process.
    pub process: Asid,
    /// First byte of the base page.
    pub page: VirtAddr,
    /// Its mapping.
    pub mapping: MappingId,
    /// The size at which page tables map it, if the engine tells: a pass does.
    pub leaf: Option<PageSize>,
    /// Whether a fetch caused it; otherwise a data reference did.
    pub fetch: bool,
    /// Page-table entries read.
    pub references: u32,
    /// Modelled cycles.
    pub cycles: u64,
    /// The instruction that caused it; 0 if the stream has no code.
    pub instruction: VirtAddr,
    /// The instruction's block.
    pub block: &'a Block,
    /// Instructions executed so far, including all of its block.
    pub instructions: u64,
}

/// What references miss in caches of memory, and how long they wait for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// Lines that a cache of each level did not have, level 1 first. Stores that a cache passes on do not miss there.
    pub misses: [u64; LEVELS],
    /// Modelled cycles beyond the fastest access.
    pub cycles: u64,
}

impl Waits {
    /// Adds others.
    pub fn add(&mut self, other: &Waits) {
        for (sum, own) in self.misses.iter_mut().zip(other.misses) {
            *sum += own;
        }
        self.cycles = self.cycles.saturating_add(other.cycles);
    }

    /// Adds those of a reference.
    #[inline]
    pub fn add_reference(&mut self, reference: ReferenceWaits) {
        self.add_references(reference, 1);
    }

    /// Adds those of so many references, which are alike.
    #[inline]
    pub fn add_references(&mut self, reference: ReferenceWaits, times: u64) {
        for (level, sum) in self.misses.iter_mut().enumerate() {
            *sum += (reference.lines >> (LEVEL_BITS * level) & ((1 << LEVEL_BITS) - 1)) * times;
        }
        self.cycles = self.cycles.saturating_add(reference.cycles.saturating_mul(times));
    }
}

/// The bits of [`ReferenceWaits`] for each level's misses: no reference has as many lines.
const LEVEL_BITS: usize = 16;
const _: () = assert!(LEVEL_BITS * LEVELS <= u64::BITS as usize);

/// [`Waits`] of one reference. There are very many, so they fit two registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReferenceWaits {
    /// Level 1 in the lowest bits.
    lines: u64,
    /// See [`Waits::cycles`].
    pub cycles: u64,
}

impl ReferenceWaits {
    /// So many cycles, and no misses.
    #[inline]
    pub fn of_cycles(cycles: u64) -> ReferenceWaits {
        ReferenceWaits { lines: 0, cycles }
    }

    /// Adds the miss of a line in a cache of this level.
    #[inline]
    pub fn miss(&mut self, level: u8) {
        debug_assert!((1..=LEVELS).contains(&usize::from(level)), "level {level}");
        self.lines += 1 << (LEVEL_BITS * (usize::from(level) - 1));
    }
}

/// A reference of the program that missed a cache of the first design, for its observer.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Wait<'a> {
    /// The running process.
    pub process: Asid,
    /// The page.
    pub of: WaitingPage,
    /// The instruction; 0 if the stream has no code.
    pub instruction: VirtAddr,
    /// The instruction's block.
    pub block: &'a Block,
    /// What it missed, and its cycles.
    pub waits: ReferenceWaits,
}

/// A page whose references missed caches.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct WaitingPage {
    /// First byte of the base page.
    pub page: VirtAddr,
    /// A small number that only this page has until it is unmapped; none if nothing has translated the page.
    pub id: Option<u32>,
    /// Its mapping.
    pub mapping: MappingId,
}

/// Whether an observer hears of misses of caches, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HearsWaits {
    /// It does not.
    Never,
    /// Of each, in [`Observer::on_wait`], when the caches have simulated it.
    AtOnce,
    /// Most are summed up, by instruction and again by page, until code or pages change, or results are asked for.
    /// `on_wait` tells of each such instruction and page before.
    Together,
}

/// Observes every walk of the first machine, on all of its cores, and every miss of its caches of memory.
pub trait Observer: Send {
    /// A walk happened. `space` is the address space at that moment.
    fn on_walk(&mut self, walk: &Walk<'_>, space: &AddressSpace);

    /// Code of a process in this range may change from now on.
    fn on_lost_code(&mut self, _process: Asid, _range: Range<u64>) {}

    /// Whether it is to hear of misses of caches, and when.
    fn hears_waits(&self) -> HearsWaits {
        HearsWaits::Never
    }

    /// A wait in the [page](WaitingPage::id) comes soon: an observer may prefetch what it needs then.
    fn expect_wait(&self, _page_id: u32) {}

    /// A reference missed a cache. Lines of one reference may be told apart.
    fn on_wait(&mut self, _wait: &Wait<'_>, _space: &AddressSpace) {}

    /// References of an instruction missed caches: see [`HearsWaits::Together`].
    fn on_waits_of_code(&mut self, _instruction: VirtAddr, _waits: &Waits) {}

    /// References to a page missed caches: see [`HearsWaits::Together`].
    fn on_waits_of_page(&mut self, _page: WaitingPage, _waits: &Waits) {}
}

/// The addresses whose code an event may change.
pub(crate) fn lost_code(event: &Event, space: &AddressSpace) -> Option<Range<u64>> {
    let (Event::Unmap { start, bytes } | Event::Map(Mapping { start, bytes, .. })) = event else {
        return None;
    };
    let range = start.0..start.0.saturating_add(*bytes);
    space.has_code(range.clone()).then_some(range)
}

/// Observes nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl Observer for NoObserver {
    fn on_walk(&mut self, _walk: &Walk<'_>, _space: &AddressSpace) {}
}

/// Blocks that their area grew over after their first touch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LateBlocks {
    /// Blocks that the first design's policy would put on huge pages, had the area held them from the start.
    pub huge_otherwise: u64,
    /// Blocks that it would not: huge pages are off, or only for advised memory.
    pub small_anyway: u64,
}

impl LateBlocks {
    /// All such blocks.
    pub fn all(self) -> u64 {
        self.huge_otherwise + self.small_anyway
    }
}

/// Counts of one named mapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MappingCounts {
    /// Pages touched.
    pub pages_touched: u64,
    /// Fetch references.
    pub references_fetch: u64,
    /// Data references.
    pub references_data: u64,
    /// Walks of the first design by fetches.
    pub walks_fetch: u64,
    /// Walks of the first design by data.
    pub walks_data: u64,
    /// Page-table entries that those walks read.
    pub walk_references: u64,
    /// Modelled cycles of those walks.
    pub walk_cycles: u64,
    /// Blocks that it grew over after their first touch.
    pub late_blocks: LateBlocks,
}

/// Walks of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageWalks {
    /// First byte of the base page.
    pub page: VirtAddr,
    /// Its mapping.
    pub mapping: MappingId,
    /// Walks by fetches.
    pub walks_fetch: u64,
    /// Walks by data references.
    pub walks_data: u64,
}
