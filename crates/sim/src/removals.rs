//! Pages that a change of mappings removes.

use crate::ranges::page_bytes;
use pagewalk_mm::{AddressSpace, Change};
use pagewalk_trace::Ref;
use pagewalk_units::{PAGE_BYTES, Paging, VirtAddr};
use std::ops::Range;

/// The pages that a change of mappings removes or flushes.
pub(crate) struct Removal {
    /// Its first byte.
    pub start: VirtAddr,
    /// Its length, cut at the last address that records hold.
    pub bytes: u64,
    /// Its bytes, in whole 4 KiB pages.
    pub range: Range<u64>,
    /// The base pages that it overlaps.
    pub pages: Range<u64>,
    /// The base pages that are gone: none for a flush, and no page at an end that stays mapped in part.
    pub gone: Range<u64>,
}

impl Removal {
    /// The removal by a change that `space` reflects already. `None` for a change above the addresses that records
    /// hold, where nothing was touched.
    pub fn by(change: Change, space: &AddressSpace, paging: Paging) -> Option<Removal> {
        let (Change::Gone { start, bytes } | Change::Flushed { start, bytes }) = change;
        let bytes = bytes.min(Ref::ADDRESS_END.checked_sub(start.0).filter(|&room| room > 0)?);
        let last = start.0 + (bytes - 1);
        let range = start.0 & !(PAGE_BYTES - 1)..(last | (PAGE_BYTES - 1)) + 1;
        let base = paging.base().shift();
        let pages = start.0 >> base..(last >> base) + 1;
        let gone = match change {
            Change::Gone { .. } => gone_of(pages.clone(), &range, space, paging),
            Change::Flushed { .. } => pages.end..pages.end,
        };
        Some(Removal { start, bytes, range, pages, gone })
    }
}

/// The base pages of `pages` that are gone with the bytes of `range`: all, perhaps except the ends.
fn gone_of(mut pages: Range<u64>, range: &Range<u64>, space: &AddressSpace, paging: Paging) -> Range<u64> {
    let is_gone = |vpn: u64| {
        let bytes = page_bytes(vpn, paging.base());
        let covered = range.start <= bytes.start && bytes.end <= range.end;
        covered || space.vma_within(bytes).is_none()
    };
    pages.start += u64::from(!is_gone(pages.start));
    pages.end -= u64::from(!pages.is_empty() && !is_gone(pages.end - 1));
    pages
}
