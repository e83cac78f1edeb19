//! The executable sections of an object, and its unwind table.

use crate::unwind::Extents;
use std::ops::Range;

/// An executable section: its stated addresses and its place in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CodeSection {
    pub addresses: Range<u64>,
    /// Empty if the file has no bytes of it.
    pub in_file: Range<u64>,
}

/// An object's code by address.
pub(crate) struct Code<'a> {
    sections: &'a [CodeSection],
    extents: &'a Extents,
    file: &'a [u8],
}

impl<'a> Code<'a> {
    pub fn new(sections: &'a [CodeSection], extents: &'a Extents, file: &'a [u8]) -> Code<'a> {
        Code { sections, extents, file }
    }

    pub fn extents(&self) -> &'a Extents {
        self.extents
    }

    /// The end of the section that holds `address`.
    pub fn section_end(&self, address: u64) -> Option<u64> {
        Some(self.section(address)?.addresses.end)
    }

    /// The bytes from `address` to the end of its section, as far as the file has them.
    pub fn bytes(&self, address: u64) -> &'a [u8] {
        let bytes = |section: &CodeSection| {
            let start = section.in_file.start.checked_add(address - section.addresses.start)?;
            let end = section.in_file.end.min(self.file.len() as u64);
            self.file.get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
        };
        self.section(address).and_then(bytes).unwrap_or_default()
    }

    fn section(&self, address: u64) -> Option<&'a CodeSection> {
        self.sections.iter().find(|section| section.addresses.contains(&address))
    }
}
