//! Effects of events on mapped pages.

use pagewalk_units::{PageSize, VirtAddr};
use std::ops::Range;

/// An event's effect on pages that may be in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The pages of this range are no longer backed: unmapped, replaced, moved or discarded.
    Gone {
        /// First byte.
        start: VirtAddr,
        /// Length in bytes, above 0.
        bytes: u64,
    },
    /// Translations of this range are no longer valid, but the memory stays.
    Flushed {
        /// First byte.
        start: VirtAddr,
        /// Length in bytes, above 0.
        bytes: u64,
    },
}

impl Change {
    /// The numbers of pages of `size` that overlap it.
    pub fn pages(&self, size: PageSize) -> Range<u64> {
        let (Change::Gone { start, bytes } | Change::Flushed { start, bytes }) = *self;
        size.number(start)..size.number(VirtAddr(start.0.saturating_add(bytes - 1))) + 1
    }
}

/// Records that bytes are gone, merging adjacent ranges: one call's range may cover several areas.
pub(crate) fn gone(start: u64, bytes: u64, changes: &mut Vec<Change>) {
    match changes.last_mut() {
        Some(Change::Gone { start: before, bytes: length }) if before.0 + *length == start => {
            *length += bytes
        }
        _ if bytes > 0 => changes.push(Change::Gone { start: VirtAddr(start), bytes }),
        _ => {}
    }
}

/// Records that translations are no longer valid, merging adjacent ranges.
pub(crate) fn flushed(start: u64, bytes: u64, changes: &mut Vec<Change>) {
    match changes.last_mut() {
        Some(Change::Flushed { start: before, bytes: length }) if before.0 + *length == start => {
            *length += bytes
        }
        _ if bytes > 0 => changes.push(Change::Flushed { start: VirtAddr(start), bytes }),
        _ => {}
    }
}
