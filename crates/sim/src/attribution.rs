//! Who pays: walks and references of the first design by page and by mapping, and the observer told of each walk.

use pagewalk_mm::{AddressSpace, MappingId};
use pagewalk_trace::Block;
use pagewalk_units::VirtAddr;

/// A walk of the first design, as its observer sees it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Walk<'a> {
    /// The first byte of the base page walked for.
    pub page: VirtAddr,
    /// Its mapping.
    pub mapping: MappingId,
    /// Whether a fetch caused it (otherwise a data reference).
    pub fetch: bool,
    /// Page-table entries read.
    pub references: u32,
    /// Modelled cycles.
    pub cycles: u64,
    /// The instruction that caused it; 0 where the stream has no code.
    pub instruction: VirtAddr,
    /// The block that it is in.
    pub block: &'a Block,
    /// Instructions executed before it, those of its own block included.
    pub instructions: u64,
}

/// Told of every walk of the first design.
pub trait WalkObserver: Send {
    /// A walk happened. `space` is the address space at this moment.
    fn on_walk(&mut self, walk: &Walk<'_>, space: &AddressSpace);
}

/// Observes nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl WalkObserver for NoObserver {
    fn on_walk(&mut self, _walk: &Walk<'_>, _space: &AddressSpace) {}
}

/// Blocks that an area grew over after their first touch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LateBlocks {
    /// Those to which the first design's policy would have given a huge page, had the area held them from the start.
    pub huge_otherwise: u64,
    /// Those to which it would not: huge pages are off, or only for memory that is advised.
    pub small_anyway: u64,
}

impl LateBlocks {
    /// All of them.
    pub fn all(self) -> u64 {
        self.huge_otherwise + self.small_anyway
    }
}

/// What one named mapping received.
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
