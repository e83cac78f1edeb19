//! Pages that hold only a piece of a file, which address spaces can share.

use pagewalk_mm::AddressSpace;
use pagewalk_trace::{Event, FileIdentity, Mapping, MappingKind, Protection};
use pagewalk_units::VirtAddr;

const READ: Protection = Protection { read: true, write: false, execute: false };
const CODE: Protection = Protection { execute: true, ..READ };
const DATA: Protection = Protection { write: true, ..READ };

/// Maps `pages` of a library from page `start` on.
fn map(start: u64, pages: u64, offset: u64, protection: Protection) -> Event {
    let file = FileIdentity { path: "/lib/libc.so".into(), offset: offset << 12, build_id: None };
    Event::Map(Mapping {
        protection,
        kind: MappingKind::File,
        file: Some(file),
        ..Mapping::anonymous(VirtAddr(start << 12), pages << 12)
    })
}

fn protect(start: u64, pages: u64, protection: Protection) -> Event {
    Event::Protect { start: VirtAddr(start << 12), bytes: pages << 12, protection }
}

/// Offset, in pages of 4 KiB, and rights of what the pages `[start, start + pages)` hold after these events.
fn held(events: &[Event], start: u64, pages: u64) -> Option<(u64, Protection)> {
    let mut space = AddressSpace::default();
    events.iter().for_each(|event| space.apply(event, &mut Vec::new()));
    let page = space.file_page(start << 12..(start + pages) << 12)?;
    assert_eq!(page.path, "/lib/libc.so");
    Some((page.offset >> 12, page.protection))
}

#[test]
fn code_and_constants_are_the_files_own() {
    let library = [map(10, 8, 0, READ), map(12, 4, 2, CODE)];
    assert_eq!(held(&library, 11, 1), Some((1, READ)));
    assert_eq!(held(&library, 13, 1), Some((3, CODE)));
    assert_eq!(held(&library, 12, 4), Some((2, CODE)));
    assert_eq!(held(&library, 11, 2), None, "rights differ");
    assert_eq!(held(&library, 17, 2), None, "nothing is mapped behind it");
    assert_eq!(held(&library, 30, 1), None);
}

#[test]
fn what_could_be_written_may_be_a_copy() {
    // As a loader protects relocated data (RELRO), or relocates code.
    assert_eq!(held(&[map(10, 8, 0, DATA), protect(10, 8, READ)], 12, 1), None);
    let relocated = [map(10, 8, 0, CODE), protect(12, 1, DATA), protect(12, 1, CODE)];
    assert_eq!(held(&relocated, 12, 1), None);
    assert_eq!(held(&relocated, 13, 1), Some((3, CODE)));
    let shared = |kind, file| {
        Event::Map(Mapping { protection: READ, kind, file, ..Mapping::anonymous(VirtAddr(10 << 12), 4096) })
    };
    assert_eq!(held(&[shared(MappingKind::Anonymous, None)], 10, 1), None);
    assert_eq!(held(&[shared(MappingKind::File, None)], 10, 1), None, "a file that nobody knows");
}

#[test]
fn pieces_that_follow_each_other_in_the_file_are_one() {
    assert_eq!(held(&[map(16, 1, 4, CODE), map(17, 3, 5, CODE)], 16, 4), Some((4, CODE)));
    assert_eq!(held(&[map(16, 1, 4, CODE), map(17, 3, 6, CODE)], 16, 4), None);
    // Protecting a part as it was cuts it in two.
    assert_eq!(held(&[map(16, 4, 4, CODE), protect(17, 1, CODE)], 16, 4), Some((4, CODE)));
}

#[test]
fn offsets_move_with_what_is_moved() {
    let remap = |new_start: u64, old_pages: u64, new_pages: u64| Event::Remap {
        old_start: VirtAddr(12 << 12),
        old_bytes: old_pages << 12,
        new_start: VirtAddr(new_start << 12),
        new_bytes: new_pages << 12,
    };
    assert_eq!(held(&[map(10, 4, 7, CODE), remap(40, 2, 2)], 41, 1), Some((10, CODE)));
    assert_eq!(held(&[map(10, 4, 7, CODE), remap(12, 2, 5)], 15, 1), Some((12, CODE)), "grown in place");
}
