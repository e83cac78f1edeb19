//! The memory that an event makes usable.
//!
//! Memory mapped without any right is reserved address space, like arenas of `malloc` and heaps of just-in-time
//! compilers: nothing backs it until `mprotect` gives it a right.

use crate::ranges::added;
use pagewalk_mm::AddressSpace;
use pagewalk_trace::Event;
use std::ops::Range;

/// The bytes that an event makes usable; `before` is the address space before the event.
pub(crate) fn opened(event: &Event, before: &AddressSpace) -> Vec<Range<u64>> {
    let is_usable = match event {
        Event::Map(mapping) => mapping.protection.allows_some(),
        Event::Protect { protection, .. } => protection.allows_some(),
        Event::Remap { old_start, .. } => before.vma(*old_start).is_some_and(|area| area.is_usable()),
        _ => true,
    };
    match event {
        _ if !is_usable => Vec::new(),
        Event::Protect { start, bytes, .. } => before.unusable(*start, *bytes),
        _ => added(event).into_iter().collect(),
    }
}
