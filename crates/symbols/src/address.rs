//! The address spaces of an object file.

/// A byte's offset in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileOffset(pub u64);

/// Stated virtual memory address: a byte's address in the ELF file, before the loader moves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Svma(pub u64);

/// A loadable segment: a part of the file, and its stated address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub offset: FileOffset,
    pub bytes: u64,
    pub address: Svma,
    pub executable: bool,
}

/// The stated address of `offset`. Mappings are whole pages, so both segments map the page at their border: code
/// belongs to the executable one.
pub(crate) fn stated_address(segments: &[Segment], offset: FileOffset) -> Option<Svma> {
    let holds =
        |segment: &&Segment| offset.0.checked_sub(segment.offset.0).is_some_and(|into| into < segment.bytes);
    let executable = segments.iter().filter(|segment| segment.executable).find(holds);
    let segment = executable.or_else(|| segments.iter().find(holds))?;
    Some(Svma(segment.address.0.wrapping_add(offset.0 - segment.offset.0)))
}

/// The file offset of the stated `address`.
pub(crate) fn file_offset(segments: &[Segment], address: Svma) -> Option<FileOffset> {
    let holds = |segment: &&Segment| {
        address.0.checked_sub(segment.address.0).is_some_and(|into| into < segment.bytes)
    };
    let segment = segments.iter().find(holds)?;
    Some(FileOffset(segment.offset.0.checked_add(address.0 - segment.address.0)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_belongs_to_the_executable_segment_that_holds_it() {
        let data = Segment { offset: FileOffset(0), bytes: 0x1800, address: Svma(0), executable: false };
        let code =
            Segment { offset: FileOffset(0x1000), bytes: 0x1000, address: Svma(0x40_2000), executable: true };
        let segments = [data, code];
        assert_eq!(stated_address(&segments, FileOffset(0xfff)), Some(Svma(0xfff)));
        assert_eq!(stated_address(&segments, FileOffset(0x1000)), Some(Svma(0x40_2000)));
        assert_eq!(stated_address(&segments, FileOffset(0x1fff)), Some(Svma(0x40_2fff)));
        assert_eq!(stated_address(&segments, FileOffset(0x2000)), None);
        assert_eq!(file_offset(&segments, Svma(0x40_2004)), Some(FileOffset(0x1004)));
        assert_eq!(file_offset(&segments, Svma(0x40_3000)), None);
    }
}
