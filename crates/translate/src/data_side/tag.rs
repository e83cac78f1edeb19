//! Tags of entries in arrays that mix page sizes.

use std::ops::Range;

/// A page in an array: its first base page and its doublings.
pub type EntryTag = (u64, u32);

/// Entries that entered and left arrays.
#[derive(Clone, Debug, Default)]
pub struct EntryMoves {
    /// The entries that entered.
    pub entered: Vec<EntryTag>,
    /// The entries that left.
    pub left: Vec<EntryTag>,
}

/// The tag of a page in an array that mixes sizes.
#[inline(always)]
pub(super) fn tag(page: u64, shift: u32) -> u64 {
    (page >> shift) << 6 | u64::from(shift)
}

/// The page of a tag.
pub(super) fn held(tag: u64) -> EntryTag {
    let shift = (tag & 63) as u32;
    (tag >> 6 << shift, shift)
}

/// The smallest aligned block that holds these pages, at least one.
pub(super) fn block_of(pages: Range<u64>) -> EntryTag {
    let shift = u64::BITS - (pages.start ^ (pages.end - 1)).leading_zeros();
    (pages.start >> shift << shift, shift)
}

/// Whether the tagged page overlaps the range.
pub(super) fn lies_in(tag: u64, pages: &Range<u64>) -> bool {
    let (number, shift) = (tag >> 6, tag & 63);
    number << shift < pages.end && pages.start < (number + 1) << shift
}
