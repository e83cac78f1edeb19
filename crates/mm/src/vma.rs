//! The kernel's areas of memory.

use crate::MappingId;
use pagewalk_trace::{MappingKind, Protection};
use pagewalk_units::PAGE_BYTES;
use std::ops::Range;

/// `madvise` advice about huge pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HugeAdvice {
    /// None given.
    #[default]
    None,
    /// `MADV_HUGEPAGE`.
    HugePage,
    /// `MADV_NOHUGEPAGE`.
    NoHugePage,
}

/// One virtual memory area.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vma {
    /// First byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
    /// Access rights.
    pub protection: Protection,
    /// Its kind.
    pub kind: MappingKind,
    /// Its named mapping.
    pub mapping: MappingId,
    /// Advice about huge pages.
    pub advice: HugeAdvice,
    /// File offset of the first byte, for files.
    pub file_offset: u64,
    /// Whether its pages are surely the file's own: it maps a file and was never writable. A writable private mapping
    /// may have copies.
    pub unwritten_file: bool,
    /// Bytes of its pages: 4096, or more for hugetlb memory.
    pub page_bytes: u64,
}

/// A page of a file. Address spaces with equal values have equal page-table entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePage {
    /// The file's path.
    pub path: String,
    /// Its GNU build-id, if it has one.
    pub build_id: Option<String>,
    /// File offset of the page's first byte.
    pub offset: u64,
    /// Access rights.
    pub protection: Protection,
}

impl Vma {
    /// Whether it has any right. Otherwise it is reserved address space without backing.
    pub fn is_usable(&self) -> bool {
        self.protection.allows_some()
    }

    /// Whether it is hugetlb memory, which is the program's own choice and outside any policy.
    pub fn is_hugetlb(&self) -> bool {
        self.page_bytes > PAGE_BYTES
    }

    /// Whether it is private memory without a file, or taken to be, which may have transparent huge pages.
    pub fn is_private_anonymous(&self) -> bool {
        use MappingKind::{Anonymous, Heap, Inferred, Stack};
        matches!(self.kind, Anonymous | Heap | Inferred | Stack) && !self.is_hugetlb()
    }

    /// Whether an aligned range as large as a page lies in one hugetlb page.
    pub fn holds_of_hugetlb(&self, page: &Range<u64>) -> bool {
        let bytes = page.end - page.start;
        self.is_hugetlb() && bytes <= self.page_bytes && self.start <= page.start && page.end <= self.end
    }

    /// Whether it maps a file and is executable.
    pub(crate) fn is_code_of_file(&self) -> bool {
        matches!(self.kind, MappingKind::File | MappingKind::SharedFile) && self.protection.execute
    }

    /// Whether the kernel would merge `self` with `next`, which starts at its end.
    pub(crate) fn merges_with(&self, next: &Vma) -> bool {
        // Each hugetlb mapping has its own file.
        self.is_private_anonymous()
            && !next.is_hugetlb()
            && self.end == next.start
            && (self.kind, self.protection, self.advice) == (next.kind, next.protection, next.advice)
    }
}
