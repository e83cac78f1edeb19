//! Function bounds from the unwind table (`.eh_frame`).
//!
//! Compilers write it for every function, and `strip` keeps it for exceptions. It has no names, but shows which bytes
//! belong to one function.

use crate::elf::Elf;
use addr2line::gimli::{BaseAddresses, CieOrFde, EhFrame, EndianSlice, RunTimeEndian, UnwindSection};
use object::{Object, ObjectSection};
use std::ops::Range;

/// How far before a function its entry may begin: a signal return's begins one byte before its first instruction, since
/// unwinders look up the byte before a return address (glibc's `__restore_rt`).
const EARLY_BYTES: u64 = 1;

/// The functions in a file's unwind table, by stated address.
#[derive(Debug, Default)]
pub(crate) struct Extents(Vec<Range<u64>>);

impl Extents {
    /// Reads a file's table; empty if it is missing, truncated before a damaged part.
    pub fn read(elf: &Elf<'_>) -> Extents {
        let mut extents = Vec::new();
        let address = |name: &str| elf.section_by_name(name).map(|section| section.address());
        let mut bases = BaseAddresses::default();
        bases = address(".text").map_or(bases.clone(), |at| bases.set_text(at));
        bases = address(".got").map_or(bases.clone(), |at| bases.set_got(at));
        if let Some(section) = elf.section_by_name(".eh_frame")
            && let Ok(bytes) = section.data()
        {
            bases = bases.set_eh_frame(section.address());
            let endian = if elf.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
            read_entries(&EhFrame::from(EndianSlice::new(bytes, endian)), &bases, &mut extents);
        }
        Extents::new(extents)
    }

    pub fn new(mut extents: Vec<Range<u64>>) -> Extents {
        extents.retain(|extent| !extent.is_empty());
        extents.sort_unstable_by_key(|extent| (extent.start, extent.end));
        extents.dedup_by_key(|later| later.start);
        Extents(extents)
    }

    /// The function around `address`.
    pub fn around(&self, address: u64) -> Option<&Range<u64>> {
        let after = self.0.partition_point(|extent| extent.start <= address);
        self.0[..after].last().filter(|extent| extent.contains(&address))
    }

    /// The start of the first function after `address`.
    pub fn next_start(&self, address: u64) -> Option<u64> {
        let after = self.0.partition_point(|extent| extent.start <= address);
        self.0.get(after).map(|extent| extent.start)
    }
}

/// Whether a function that begins at `extent` is the one with its symbol at `address`.
pub(crate) fn begins_at(extent: &Range<u64>, address: u64) -> bool {
    (extent.start..=extent.start.saturating_add(EARLY_BYTES)).contains(&address)
}

fn read_entries(
    frame: &EhFrame<EndianSlice<'_, RunTimeEndian>>,
    bases: &BaseAddresses,
    extents: &mut Vec<Range<u64>>,
) {
    let mut entries = frame.entries(bases);
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else { continue };
        let Ok(function) = partial.parse(EhFrame::cie_from_offset) else { continue };
        let start = function.initial_address();
        extents.push(start..start.saturating_add(function.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_found_by_each_of_its_bytes() {
        let extents = Extents::new(vec![0x20..0x30, 0x10..0x18, 0x40..0x40]);
        assert_eq!(extents.around(0x0f), None);
        assert_eq!(extents.around(0x17), Some(&(0x10..0x18)));
        assert_eq!(extents.around(0x18), None);
        assert_eq!(extents.around(0x20), Some(&(0x20..0x30)));
        assert_eq!(extents.around(0x40), None, "it has no byte");
        assert_eq!((extents.next_start(0x10), extents.next_start(0x20)), (Some(0x20), None));
    }

    #[test]
    fn an_entry_may_begin_a_byte_early() {
        assert!(begins_at(&(0x10..0x20), 0x10) && begins_at(&(0x10..0x20), 0x11));
        assert!(!begins_at(&(0x10..0x20), 0x12) && !begins_at(&(0x10..0x20), 0x0f));
    }
}
