//! Former code: file code at addresses that no longer map the file.
//!
//! Programs move their own code onto huge pages: they copy it away, map anonymous memory in its place, and copy it back
//! (`node --use-largepages`, Meta's hugify in BOLT, Intel's iodlr). The same code is then at the same addresses, but no
//! mapping says so.

use crate::{MappingId, Vma};
use std::collections::BTreeMap;
use std::ops::Range;

/// A byte of a file's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilePlace {
    /// The file's mapping.
    pub mapping: MappingId,
    /// Offset in the file.
    pub offset: u64,
}

/// Former code areas by start, with their end and the file place of the first byte. Disjoint.
#[derive(Clone, Debug, Default)]
pub(crate) struct FormerCode(BTreeMap<u64, (u64, FilePlace)>);

impl FormerCode {
    /// Records an area of file code that goes.
    pub fn note(&mut self, gone: &Vma) {
        let place = FilePlace { mapping: gone.mapping, offset: gone.file_offset };
        self.clear(gone.start..gone.end);
        self.0.insert(gone.start, (gone.end, place));
    }

    /// The last file code at `address`.
    pub fn at(&self, address: u64) -> Option<FilePlace> {
        let (&start, &(end, place)) = self.0.range(..=address).next_back()?;
        let offset = place.offset.checked_add(address - start)?;
        (address < end).then_some(FilePlace { offset, ..place })
    }

    fn clear(&mut self, range: Range<u64>) {
        let overlapping = self.0.range(..range.end).rev().take_while(|(_, (end, _))| *end > range.start);
        let starts: Vec<u64> = overlapping.map(|(&start, _)| start).collect();
        for start in starts {
            let (end, place) = self.0.remove(&start).expect("it was just listed");
            if start < range.start {
                self.0.insert(start, (range.start, place));
            }
            if end > range.end {
                let offset = place.offset.saturating_add(range.end - start);
                self.0.insert(range.end, (end, FilePlace { offset, ..place }));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::AddressSpace;
    use pagewalk_trace::{Event, FileIdentity, Mapping, MappingKind, Protection};
    use pagewalk_units::VirtAddr;

    const CODE: Protection = Protection { read: true, write: false, execute: true };
    const DATA: Protection = Protection { read: true, write: true, execute: false };

    fn map(start: u64, bytes: u64, protection: Protection, file: Option<(&str, u64)>) -> Event {
        let identity =
            |(path, offset): (&str, u64)| FileIdentity { path: path.to_owned(), offset, build_id: None };
        let kind = if file.is_some() { MappingKind::File } else { MappingKind::Anonymous };
        let file = file.map(identity);
        Event::Map(Mapping { protection, kind, file, ..Mapping::anonymous(VirtAddr(start), bytes) })
    }

    fn space(events: &[Event]) -> AddressSpace {
        let mut space = AddressSpace::default();
        space.start_running();
        events.iter().for_each(|event| space.apply(event, &mut Vec::new()));
        space
    }

    fn protect(start: u64, bytes: u64, protection: Protection) -> Event {
        Event::Protect { start: VirtAddr(start), bytes, protection }
    }

    /// The file and the offset in it.
    fn former(space: &AddressSpace, address: u64) -> Option<(&str, u64)> {
        let place = space.former_code(VirtAddr(address))?;
        Some((&space.info(place.mapping).name, place.offset))
    }

    #[test]
    fn anonymous_code_in_the_place_of_a_files_may_be_that() {
        let mut events = vec![
            map(0x10000, 0x8000, CODE, Some(("/a", 0x1000))),
            map(0x18000, 0x1000, DATA, Some(("/a", 0x9000))),
            map(0x12000, 0x2000, DATA, None),
        ];
        assert_eq!(former(&space(&events), 0x12004), None, "it is no code yet");
        events.push(protect(0x12000, 0x2000, CODE));
        let moved = space(&events);
        assert_eq!(former(&moved, 0x12004), Some(("/a", 0x3004)));
        assert_eq!(former(&moved, 0x13fff), Some(("/a", 0x4fff)));
        assert_eq!(
            (former(&moved, 0x11fff), former(&moved, 0x14000)),
            (None, None),
            "that is the file's still"
        );
        let mapping = moved.vma(VirtAddr(0x12000)).unwrap().mapping;
        assert_eq!(moved.info(mapping).name, "/a [moved code]");
    }

    #[test]
    fn code_that_is_moved_over_another_and_code_that_is_unmapped_first() {
        let file = map(0x10000, 0x4000, CODE, Some(("/a", 0)));
        let copy = map(0x50000, 0x2000, CODE, None);
        let (old_start, new_start) = (VirtAddr(0x50000), VirtAddr(0x11000));
        let moves = Event::Remap { old_start, old_bytes: 0x2000, new_start, new_bytes: 0x2000 };
        assert_eq!(former(&space(&[file.clone(), copy, moves]), 0x12010), Some(("/a", 0x2010)));
        let gone = Event::Unmap { start: VirtAddr(0x10000), bytes: 0x4000 };
        let again = map(0x11000, 0x1000, CODE, None);
        let there = space(&[file.clone(), gone, again]);
        assert_eq!((former(&there, 0x11010), former(&there, 0x12010)), (Some(("/a", 0x1010)), None));
        // The program makes it data first, to write to it.
        let data = protect(0x10000, 0x1000, DATA);
        let replaced = [file, data, map(0x10000, 0x1000, CODE, None)];
        assert_eq!(former(&space(&replaced), 0x10020), Some(("/a", 0x20)));
    }

    #[test]
    fn the_last_code_at_an_address_counts() {
        let both = space(&[
            map(0x10000, 0x4000, CODE, Some(("/a", 0))),
            map(0x11000, 0x1000, CODE, Some(("/b", 0x7000))),
            map(0x10000, 0x4000, CODE, None),
        ]);
        assert_eq!(former(&both, 0x10008), Some(("/a", 0x8)));
        assert_eq!(former(&both, 0x11008), Some(("/b", 0x7008)));
        assert_eq!(former(&both, 0x12008), Some(("/a", 0x2008)));
    }

    /// The loader maps a whole library as code, then maps zero-initialised data over a part.
    #[test]
    fn zero_initialised_data_is_no_moved_code() {
        let loaded = space(&[
            map(0x10000, 0x8000, CODE, Some(("/lib", 0))),
            map(0x14000, 0x2000, DATA, Some(("/lib", 0x3000))),
            map(0x16000, 0x2000, DATA, None),
        ]);
        let mapping = loaded.vma(VirtAddr(0x16000)).unwrap().mapping;
        assert_eq!(loaded.info(mapping).name, "/lib [bss]");
        assert_eq!(former(&loaded, 0x16000), None);
    }
}
