//! Areas of memory, as the kernel keeps them.

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
    /// What it is made of.
    pub kind: MappingKind,
    /// The named mapping it belongs to.
    pub mapping: MappingId,
    /// Advice about huge pages.
    pub advice: HugeAdvice,
    /// Offset in the file of the first byte, for files.
    pub file_offset: u64,
    /// Whether its pages are those of a file: it maps one, and never had the right to write. Of what could be written,
    /// a private mapping may have copies.
    pub unwritten_file: bool,
    /// Bytes of the pages that back it: 4096, or more where the program has it from hugetlb.
    pub page_bytes: u64,
}

/// A page that is a piece of a file. Where it is the same for two address spaces, so is its page-table entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePage {
    /// The file's path.
    pub path: String,
    /// Its GNU build-id, where it has one.
    pub build_id: Option<String>,
    /// Offset in it of the page's first byte.
    pub offset: u64,
    /// Access rights.
    pub protection: Protection,
}

impl Vma {
    /// Whether a program may use it in some way. What it may not is address space that is set aside: nothing backs it.
    pub fn is_usable(&self) -> bool {
        self.protection.allows_some()
    }

    /// Whether its pages are those of hugetlb: the program's own choice, with which no policy has anything to do.
    pub fn is_hugetlb(&self) -> bool {
        self.page_bytes > PAGE_BYTES
    }

    /// Whether it is private memory of no file, which may have transparent huge pages.
    pub fn is_private_anonymous(&self) -> bool {
        let anonymous = matches!(self.kind, MappingKind::Anonymous | MappingKind::Heap | MappingKind::Stack);
        anonymous && !self.is_hugetlb()
    }

    /// Whether a range of bytes, as large as a page and aligned to it, is on one page of hugetlb, or is a part of one.
    pub fn holds_of_hugetlb(&self, page: &Range<u64>) -> bool {
        let bytes = page.end - page.start;
        self.is_hugetlb() && bytes <= self.page_bytes && self.start <= page.start && page.end <= self.end
    }

    /// Whether it is a file's and may be executed.
    pub(crate) fn is_code_of_file(&self) -> bool {
        matches!(self.kind, MappingKind::File | MappingKind::SharedFile) && self.protection.execute
    }

    /// Whether the kernel would make one area of `self` and `next`, which starts where `self` ends.
    pub(crate) fn merges_with(&self, next: &Vma) -> bool {
        // Each mapping of hugetlb has a file of its own.
        self.is_private_anonymous()
            && !next.is_hugetlb()
            && self.end == next.start
            && (self.kind, self.protection, self.advice) == (next.kind, next.protection, next.advice)
    }
}
