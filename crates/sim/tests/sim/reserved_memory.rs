//! Address space that is set aside, as arenas of `malloc` are, on data sides: nothing backs it until it may be used.

use pagewalk_mm::Small;
use pagewalk_sim::{DataSides, Library, RangeTotals};
use pagewalk_trace::{Analysis, Event, Mapping, Protection};
use pagewalk_translate::{MachineSpec, RangeBacking};
use pagewalk_units::{RefIndex, VirtAddr};
use std::ops::Range;
use std::sync::Arc;

const NONE: Protection = Protection { read: false, write: false, execute: false };
const READ: Protection = Protection { read: true, ..NONE };
const ALL: Protection = Protection { read: true, write: true, execute: false };

fn map(pages: Range<u64>, protection: Protection) -> Event {
    let (start, bytes) = (VirtAddr(pages.start << 12), (pages.end - pages.start) << 12);
    Event::Map(Mapping { protection, ..Mapping::anonymous(start, bytes) })
}

fn protect(pages: Range<u64>, protection: Protection) -> Event {
    let (start, bytes) = (VirtAddr(pages.start << 12), (pages.end - pages.start) << 12);
    Event::Protect { start, bytes, protection }
}

/// Ranges, and pages that are backed, after these events: with frames of a memory, and with perfect backing. A range
/// has at least 8 pages.
fn backed(events: &[Event]) -> [(u64, u64); 2] {
    let perfect = Library::get("karakostas_rmm_4k").unwrap();
    let mut eager: MachineSpec = perfect.clone();
    let side = eager.data_side.as_deref_mut().unwrap();
    side.backing = RangeBacking::Eager;
    side.memory = Some(toml::Table::from_iter([("size".to_owned(), toml::Value::from("64M"))]));
    let mut pass = DataSides::new(&[eager, perfect], Arc::new(Small)).unwrap();
    events.iter().for_each(|event| pass.on_event(RefIndex(0), event));
    let of = |RangeTotals { ranges, pages, .. }| (ranges, pages);
    let found: Vec<(u64, u64)> = pass.finish().into_iter().map(|totals| of(totals.ranges.unwrap())).collect();
    [found[0], found[1]]
}

#[test]
fn what_is_set_aside_is_backed_as_it_is_opened() {
    let mut events = vec![map(4096..8192, NONE)];
    assert_eq!(backed(&events), [(0, 0); 2]);
    // An arena gets its first pages.
    events.push(protect(4096..4160, ALL));
    assert_eq!(backed(&events), [(1, 64); 2]);
    // Other rights are not the first ones.
    events.push(protect(4096..4128, READ));
    assert_eq!(backed(&events), [(2, 64); 2]);
    // It grows over what it has; four pages, which are too few for a range, wait until they are used.
    events.push(protect(4096..4288, ALL));
    events.push(protect(5000..5004, ALL));
    assert_eq!(backed(&events).map(|(_, pages)| pages), [192, 196]);
    // Memory that is closed again keeps its frames, in no range, and is not backed twice.
    events.push(protect(4096..8192, NONE));
    assert_eq!(backed(&events), [(0, 192), (0, 0)]);
    events.push(protect(4096..4288, ALL));
    assert_eq!(backed(&events).map(|(_, pages)| pages), [192, 192]);
}

#[test]
fn memory_that_moves_or_grows_keeps_its_rights() {
    let grown = Event::Remap {
        old_start: VirtAddr(4096 << 12),
        old_bytes: 512 << 12,
        new_start: VirtAddr(9000 << 12),
        new_bytes: 1024 << 12,
    };
    assert_eq!(backed(&[map(4096..4608, NONE), grown.clone()]), [(0, 0); 2]);
    assert_eq!(backed(&[map(4096..4608, READ), grown]), [(1, 1024); 2]);
}
