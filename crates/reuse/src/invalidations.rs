//! The pages whose translations an event invalidates.

use pagewalk_trace::Event;
use pagewalk_units::{PAGE_BYTES, PAGE_SHIFT, VirtAddr, Vpn};
use std::ops::Range;

const MADV_DONTNEED: i32 = 4;
const MADV_REMOVE: i32 = 9;
const MADV_DONTNEED_LOCKED: i32 = 24;

/// The 4 KiB pages whose translations `event` invalidates, as two ranges, either of which may be empty.
///
/// These are pages that are unmapped, replaced by a new mapping, moved, removed from the heap, discarded by `madvise`,
/// or whose protection changes (for which Linux flushes, whether rights are added or removed).
pub fn gone(event: &Event) -> [Range<Vpn>; 2] {
    const NONE: Range<Vpn> = Vpn(0)..Vpn(0);
    match *event {
        Event::Map(ref mapping) => [pages(mapping.start, mapping.bytes), NONE],
        Event::Unmap { start, bytes } | Event::Protect { start, bytes, .. } => [pages(start, bytes), NONE],
        Event::Advise { start, bytes, advice: MADV_DONTNEED | MADV_REMOVE | MADV_DONTNEED_LOCKED } => {
            [pages(start, bytes), NONE]
        }
        Event::Break { old_end, new_end } => {
            let (low, high) = (old_end.0.min(new_end.0), old_end.0.max(new_end.0));
            [pages(VirtAddr(low), high - low), NONE]
        }
        Event::Remap { old_start, old_bytes, new_start, new_bytes } => {
            let (old, new) = (pages(old_start, old_bytes), pages(new_start, new_bytes));
            if old.start == new.start {
                // Resized in place: only the pages that were cut off, or those that it grew over.
                return [old.end.min(new.end)..old.end.max(new.end), NONE];
            }
            [old, new]
        }
        _ => [NONE, NONE],
    }
}

/// Whole pages that overlap the bytes; saturates at the end of the address space.
fn pages(start: VirtAddr, bytes: u64) -> Range<Vpn> {
    let end = start.0.saturating_add(bytes).saturating_add(PAGE_BYTES - 1) >> PAGE_SHIFT;
    start.vpn()..start.vpn().max(Vpn(end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewalk_trace::{Mapping, MappingKind, Protection};

    /// For each range, its first page and the page after its last.
    fn taken(event: Event) -> Vec<(u64, u64)> {
        gone(&event).into_iter().filter(|r| !r.is_empty()).map(|r| (r.start.0, r.end.0)).collect()
    }

    #[test]
    fn whole_pages_go() {
        let start = VirtAddr(0x3000);
        assert_eq!(taken(Event::Unmap { start, bytes: 0x1001 }), [(3, 5)]);
        assert_eq!(taken(Event::Unmap { start, bytes: 0 }), []);
        let (protection, kind) = (Protection::default(), MappingKind::Anonymous);
        assert_eq!(taken(Event::Protect { start, bytes: 0x1000, protection }), [(3, 4)]);
        assert_eq!(
            taken(Event::Map(Mapping { protection, kind, ..Mapping::anonymous(start, 0x2000) })),
            [(3, 5)]
        );
        assert_eq!(taken(Event::Unmap { start, bytes: u64::MAX }), [(3, u64::MAX >> PAGE_SHIFT)]);
    }

    #[test]
    fn advice_may_discard() {
        let advise = |advice| taken(Event::Advise { start: VirtAddr(0x3000), bytes: 0x1000, advice });
        assert_eq!([4, 9, 24].map(advise), [[(3, 4)], [(3, 4)], [(3, 4)]]);
        assert_eq!(advise(14), []);
    }

    #[test]
    fn the_break_and_remappings_take_what_they_leave() {
        let ends = |old, new| taken(Event::Break { old_end: VirtAddr(old), new_end: VirtAddr(new) });
        assert_eq!((ends(0x5000, 0x3000), ends(0x3000, 0x5000)), (vec![(3, 5)], vec![(3, 5)]));
        let remap = |old_bytes, new_start, new_bytes| {
            let (old_start, new_start) = (VirtAddr(0x3000), VirtAddr(new_start));
            taken(Event::Remap { old_start, old_bytes, new_start, new_bytes })
        };
        assert_eq!(remap(0x4000, 0x3000, 0x2000), [(5, 7)]);
        assert_eq!(remap(0x2000, 0x3000, 0x4000), [(5, 7)]);
        assert_eq!(remap(0x2000, 0x9000, 0x4000), [(3, 5), (9, 13)]);
    }
}
