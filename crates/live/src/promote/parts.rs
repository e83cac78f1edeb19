//! The regions of a process that could be on huge pages: 2 MiB of private, writable memory without a file.

use super::policy::{PART_PAGES, RegionView};
use crate::pagemap::scan::{PageSpan, Scanner};
use crate::pages::HUGE_BYTES;
use crate::tracing::maps::Mapping;
use std::fs::File;
use std::io;

/// Whether a mapping's regions are candidates: heap and anonymous memory, but not stacks or kernel mappings.
pub fn is_candidate(mapping: &Mapping) -> bool {
    let plain = mapping.name.is_empty() || mapping.name == "[heap]" || mapping.name.starts_with("[anon:");
    plain && mapping.inode == 0 && !mapping.shared && mapping.is_writable()
}

/// The first address of a mapping's whole regions, and the first one after; none without a whole region.
pub fn blocks(mapping: &Mapping) -> Option<(u64, u64)> {
    let (from, to) = (mapping.start.next_multiple_of(HUGE_BYTES), mapping.end / HUGE_BYTES * HUGE_BYTES);
    (from < to).then_some((from, to))
}

/// All regions of `mappings` with any page, by address.
///
/// # Errors
/// If the process has ended, or the kernel has no `PAGEMAP_SCAN`.
pub fn views(pagemap: &File, mappings: &[Mapping]) -> io::Result<Vec<RegionView>> {
    let mut scanner = Scanner::new();
    let mut views = Vec::new();
    for (from, to) in mappings.iter().filter(|mapping| is_candidate(mapping)).filter_map(blocks) {
        let mut at = from;
        while at < to {
            let (regions, next) = scanner.scan(pagemap, at, to)?;
            regions.iter().filter(|region| region.present()).for_each(|region| add(region, &mut views));
            at = next;
        }
    }
    Ok(views)
}

/// Adds a run of pages to the regions that it overlaps. Runs come in order.
fn add(region: &PageSpan, views: &mut Vec<RegionView>) {
    let mut at = region.start;
    while at < region.end {
        let start = at / HUGE_BYTES * HUGE_BYTES;
        let end = region.end.min(start + HUGE_BYTES);
        if views.last().is_none_or(|last| last.start != start) {
            views.push(RegionView { start, resident_pages: 0, huge: false });
        }
        if let Some(view) = views.last_mut() {
            view.resident_pages += ((end - at) / 4096) as u32;
            view.huge |= region.huge() && view.resident_pages == PART_PAGES;
        }
        at = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracing::maps;
    use crate::tracing::sys::Pid;

    #[test]
    fn parts_of_this_process_are_found() {
        let pages = 6 << 20 >> 12;
        let memory = vec![1u8; pages * 4096];
        let first = (memory.as_ptr() as u64).next_multiple_of(HUGE_BYTES);
        let mappings = maps::mappings(std::process::id() as Pid).unwrap();
        let Ok(views) = views(&File::open("/proc/self/pagemap").unwrap(), &mappings) else { return };
        let whole = views.iter().find(|view| view.start == first).expect("a block lies in it");
        assert_eq!(whole.resident_pages, PART_PAGES);
        assert!(views.is_sorted_by_key(|view| view.start));
        drop(memory);
    }
}
