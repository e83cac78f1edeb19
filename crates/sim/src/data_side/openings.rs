//! Which memory a program may use from now on, and could not before.
//!
//! Memory that is mapped without any right is address space that is set aside, as arenas of `malloc` and heaps of
//! just-in-time compilers are: nothing backs it until `mprotect` gives it a right.

use crate::ranges::added;
use pagewalk_mm::AddressSpace;
use pagewalk_trace::Event;
use std::ops::Range;

/// The bytes of it, in an address space that has not heard of the event yet.
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
