//! Named mappings: the heap, the stack, each file, each piece of anonymous memory.

use pagewalk_trace::MappingKind;
use pagewalk_units::{SpaceId, VirtAddr};

/// A named mapping, to which walks and pages are charged. All pieces of one file share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MappingId(pub u32);

impl MappingId {
    /// Pages that no known mapping covers.
    pub const UNKNOWN: MappingId = MappingId(0);

    /// The id as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A named mapping of one of several processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessMapping {
    /// The process.
    pub process: SpaceId,
    /// Its mapping.
    pub mapping: MappingId,
}

/// The description of a named mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappingInfo {
    /// `[heap]`, `[stack]`, `[anonymous 0x4a00000]`, `[anonymous 0x4a00000 hugetlb 2M]`, a file's path,
    /// `PATH [bss]`, or `PATH [moved code]`.
    pub name: String,
    /// Its kind; `None` for pages outside every known mapping.
    pub kind: Option<MappingKind>,
    /// GNU build-id of the file.
    pub build_id: Option<String>,
    /// Its lowest address over time.
    pub start: VirtAddr,
    /// Bytes mapped now.
    pub bytes: u64,
    /// Peak mapped bytes.
    pub bytes_max: u64,
    /// Bytes of its pages at its first mapping: 4096, or more for hugetlb memory.
    pub page_bytes: u64,
}
