//! The pages and blocks of events and of ranges of bytes.

use pagewalk_mm::AddressSpace;
use pagewalk_trace::{Event, Ref};
use pagewalk_units::{PageSize, VirtAddr};
use std::ops::Range;

/// The bytes that an event adds to the address space.
pub(crate) fn added(event: &Event) -> Option<Range<u64>> {
    let (start, end) = match event {
        Event::Map(mapping) => (mapping.start.0, mapping.start.0.saturating_add(mapping.bytes)),
        Event::Break { old_end, new_end } => (old_end.0, new_end.0),
        Event::Remap { old_start, old_bytes, new_start, new_bytes } => {
            let kept = if old_start == new_start { *old_bytes } else { 0 };
            (new_start.0.saturating_add(kept), new_start.0.saturating_add(*new_bytes))
        }
        _ => return None,
    };
    (start < end).then_some(start..end)
}

/// The pages that advice on a range of bytes affects.
pub(crate) fn advised(start: VirtAddr, bytes: u64, base: PageSize) -> Range<u64> {
    let last = start.0.saturating_add(bytes.max(1) - 1);
    base.number(start)..base.number(VirtAddr(last)) + 1
}

/// The pages wholly inside a range of bytes.
pub(crate) fn whole_pages(bytes: Range<u64>, base: PageSize) -> Range<u64> {
    let first = bytes.start.div_ceil(base.bytes());
    first..(bytes.end >> base.shift()).max(first)
}

/// After advice on a range: the blocks at its ends that now lie in several areas.
pub(crate) fn parted_blocks(space: &AddressSpace, start: VirtAddr, bytes: u64, huge: PageSize) -> Vec<u64> {
    let end = start.0.saturating_add(bytes).min(Ref::ADDRESS_END);
    if end <= start.0 {
        return Vec::new();
    }
    let mut blocks = blocks_at_ends(&(start.0..end), huge);
    blocks.retain(|&block| !space.is_one_area(page_bytes(block, huge)));
    blocks
}

/// The blocks of the first and the last byte of a range, if different.
pub(crate) fn blocks_at_ends(range: &Range<u64>, huge: PageSize) -> Vec<u64> {
    let mut blocks = vec![range.start >> huge.shift(), (range.end - 1) >> huge.shift()];
    blocks.dedup();
    blocks
}

/// The bytes of a page of this size.
pub(crate) fn page_bytes(number: u64, size: PageSize) -> Range<u64> {
    number << size.shift()..(number + 1) << size.shift()
}
