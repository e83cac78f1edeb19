//! Which file's code stood where none stands now.
//!
//! Programs move their own code onto huge pages: they copy it away, map anonymous memory in its place, and copy it back
//! (`node --use-largepages`, Meta's hugify in BOLT, Intel's iodlr). It is the same code at the same addresses, though no
//! mapping says so any more.

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

/// Areas of code that are gone, by start: end, and the place of the first byte. Disjoint.
#[derive(Clone, Debug, Default)]
pub(crate) struct FormerCode(BTreeMap<u64, (u64, FilePlace)>);

impl FormerCode {
    /// Notes that an area of a file's code goes.
    pub fn note(&mut self, gone: &Vma) {
        let place = FilePlace { mapping: gone.mapping, offset: gone.file_offset };
        self.clear(gone.start..gone.end);
        self.0.insert(gone.start, (gone.end, place));
    }

    /// The code that stood last at `address`.
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
