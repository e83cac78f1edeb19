//! Mappings as people name them: the heap, the stack, each file, each piece of anonymous memory.

use pagewalk_trace::MappingKind;
use pagewalk_units::VirtAddr;

/// A named mapping: the row that walks and pages are charged to. All pieces of one file share one.
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

/// What is known of a named mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappingInfo {
    /// `[heap]`, `[stack]`, `[anonymous 0x4a00000]`, `[anonymous 0x4a00000 hugetlb 2M]`, a file's path,
    /// `PATH [bss]`, or `PATH [moved code]`.
    pub name: String,
    /// What it is made of; `None` for pages outside every known mapping.
    pub kind: Option<MappingKind>,
    /// GNU build-id of the file.
    pub build_id: Option<String>,
    /// Lowest address it ever had.
    pub start: VirtAddr,
    /// Bytes mapped now.
    pub bytes: u64,
    /// Largest number of bytes mapped at one time.
    pub bytes_max: u64,
    /// Bytes of its pages, as it was mapped first: 4096, or more where it is of hugetlb.
    pub page_bytes: u64,
}
