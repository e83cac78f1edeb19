//! Parses the parts of an x86-64 ELF object's headers that loaders use.

use pagewalk_units::PAGE_BYTES;

/// Bytes of the file header.
pub const FILE_HEADER_BYTES: usize = 64;
/// Bytes of a program header.
pub const PROGRAM_HEADER_BYTES: usize = 56;
/// Most program headers accepted in one object.
pub const PROGRAM_HEADERS_MAX: u16 = 256;

/// Position-independent: a shared object or program.
pub const KIND_DYNAMIC: u16 = 3;
/// A mapped segment.
pub const LOAD: u32 = 1;
/// The segment of the program headers.
pub const HEADERS: u32 = 6;
/// The flag of segments with code.
pub const EXECUTABLE: u32 = 1;

/// The file header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileHeader {
    /// [`KIND_DYNAMIC`], or another.
    pub kind: u16,
    /// File offset of the program headers.
    pub program_headers: u64,
    /// Number of program headers.
    pub count: u16,
}

impl FileHeader {
    /// Parses the first [`FILE_HEADER_BYTES`] bytes; none if this is no such object.
    pub fn parse(bytes: &[u8]) -> Option<FileHeader> {
        const IS_64_BIT_LITTLE_ENDIAN: &[u8] = b"\x7fELF\x02\x01";
        const X86_64: u16 = 62;
        let half = |at: usize| Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
        let header = FileHeader { kind: half(16)?, program_headers: word(bytes, 32)?, count: half(56)? };
        let sound = bytes.starts_with(IS_64_BIT_LITTLE_ENDIAN)
            && half(18)? == X86_64
            && usize::from(half(54)?) == PROGRAM_HEADER_BYTES
            && header.count <= PROGRAM_HEADERS_MAX;
        sound.then_some(header)
    }

    /// Bytes of its program headers.
    pub fn program_headers_bytes(&self) -> usize {
        usize::from(self.count) * PROGRAM_HEADER_BYTES
    }
}

/// A program header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramHeader {
    /// [`LOAD`], [`HEADERS`] or another.
    pub kind: u32,
    /// Its rights.
    pub flags: u32,
    /// Its file offset.
    pub offset: u64,
    /// Its address relative to the object's base.
    pub address: u64,
    /// Its bytes in memory.
    pub bytes: u64,
    /// Its alignment.
    pub alignment: u64,
}

impl ProgramHeader {
    /// Parses a table.
    pub fn parse_all(table: &[u8]) -> Vec<ProgramHeader> {
        table.chunks_exact(PROGRAM_HEADER_BYTES).filter_map(ProgramHeader::parse).collect()
    }

    fn parse(bytes: &[u8]) -> Option<ProgramHeader> {
        let half = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        Some(ProgramHeader {
            kind: half(0)?,
            flags: half(4)?,
            offset: word(bytes, 8)?,
            address: word(bytes, 16)?,
            bytes: word(bytes, 40)?,
            alignment: word(bytes, 48)?,
        })
    }

    /// The first address after it.
    pub fn end(&self) -> u64 {
        self.address.saturating_add(self.bytes)
    }
}

/// The mapped pages of an object: first address, relative to its base, and bytes. None if nothing is mapped.
pub fn span(headers: &[ProgramHeader]) -> Option<(u64, u64)> {
    let mapped = || headers.iter().filter(|header| header.kind == LOAD);
    let start = mapped().map(|header| header.address).min()? / PAGE_BYTES * PAGE_BYTES;
    let end = mapped().map(ProgramHeader::end).max()?.checked_next_multiple_of(PAGE_BYTES)?;
    Some((start, end.checked_sub(start)?))
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}
