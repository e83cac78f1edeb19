//! A process right after exec: its auxiliary vector, the headers in its memory, and room for a few bytes of code.

use super::sys::Pid;
use pagewalk_layout::elf::{
    EXECUTABLE, FILE_HEADER_BYTES, FileHeader, HEADERS, LOAD, PROGRAM_HEADER_BYTES, PROGRAM_HEADERS_MAX,
    ProgramHeader,
};
use pagewalk_units::PAGE_BYTES;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes of room for our code.
pub const ROOM_BYTES: usize = 40;
/// The code segment of 64-bit programs.
pub const CODE_64: u64 = 0x33;

/// The auxiliary vector, in part.
#[derive(Default)]
pub struct Vector {
    /// The loader's base; 0 without one.
    pub loader: u64,
    headers: u64,
    count: u64,
}

impl Vector {
    pub fn read(pid: Pid) -> io::Result<Vector> {
        const HEADERS_AT: u64 = 3;
        const COUNT: u64 = 5;
        const LOADER: u64 = 7;
        let bytes = fs::read(format!("/proc/{pid}/auxv"))?;
        let mut vector = Vector::default();
        for pair in bytes.as_chunks::<16>().0 {
            let [key, value] =
                [0, 8].map(|at| u64::from_le_bytes(*pair[at..].first_chunk().expect("16 bytes")));
            match key {
                HEADERS_AT => vector.headers = value,
                COUNT => vector.count = value,
                LOADER => vector.loader = value,
                _ => {}
            }
        }
        Ok(vector)
    }

    /// The program's headers, and their load bias. None if the program does not tell.
    pub fn program_headers(&self, memory: &File) -> Option<(u64, Vec<ProgramHeader>)> {
        let count = self.count.min(PROGRAM_HEADERS_MAX.into()) as usize;
        let mut table = vec![0; count * PROGRAM_HEADER_BYTES];
        memory.read_exact_at(&mut table, self.headers).ok()?;
        let headers = ProgramHeader::parse_all(&table);
        let told = headers.iter().find(|header| header.kind == HEADERS).map(|header| header.address);
        // A static program has no header of headers: they follow the file's header in its first segment.
        let first = headers.iter().find(|header| header.kind == LOAD && header.offset == 0);
        let own = told.or(first.map(|first| first.address + FILE_HEADER_BYTES as u64))?;
        Some((self.headers.wrapping_sub(own), headers))
    }

    /// [`ROOM_BYTES`] of unused executable memory: after the code of the loader, whose headers these are, or of the
    /// program.
    pub fn room(&self, memory: &File, loader: &[ProgramHeader]) -> Option<u64> {
        let program = self.program_headers(memory);
        tails(loader, self.loader)
            .chain(program.iter().flat_map(|(bias, headers)| tails(headers, *bias)))
            .find(|&tail| is_empty(memory, tail))
    }
}

/// Whether a new program imports this function from its libraries.
pub fn imports(pid: Pid, function: &str) -> io::Result<bool> {
    const DYNAMIC: u32 = 2;
    const NAMES: u64 = 5;
    const NAMES_BYTES: u64 = 10;
    /// More than any program's names need.
    const BYTES_MAX: u64 = 64 << 20;
    let memory = super::maps::memory(pid)?;
    let Some((bias, headers)) = Vector::read(pid)?.program_headers(&memory) else { return Ok(false) };
    let Some(table) = headers.iter().find(|header| header.kind == DYNAMIC) else { return Ok(false) };
    let mut bytes = vec![0; (table.end() - table.address).min(PAGE_BYTES) as usize];
    memory.read_exact_at(&mut bytes, bias.wrapping_add(table.address))?;
    // Its addresses are not relocated yet.
    let word = |wanted: u64| {
        let mut pairs =
            bytes.as_chunks::<16>().0.iter().map(|pair| {
                [0, 8].map(|at| u64::from_le_bytes(*pair[at..].first_chunk().expect("16 bytes")))
            });
        pairs.find(|[key, _]| *key == wanted).map(|[_, value]| value)
    };
    let Some((at, length)) = word(NAMES).zip(word(NAMES_BYTES)) else { return Ok(false) };
    let mut names = vec![0; length.min(BYTES_MAX) as usize];
    memory.read_exact_at(&mut names, bias.wrapping_add(at))?;
    Ok(names.split(|&byte| byte == 0).any(|name| name == function.as_bytes()))
}

/// The program headers of the object at `base`.
pub fn headers_at(memory: &File, base: u64) -> Option<Vec<ProgramHeader>> {
    let mut bytes = [0; FILE_HEADER_BYTES];
    memory.read_exact_at(&mut bytes, base).ok()?;
    let header = FileHeader::parse(&bytes)?;
    let mut table = vec![0; header.program_headers_bytes()];
    memory.read_exact_at(&mut table, base.wrapping_add(header.program_headers)).ok()?;
    Some(ProgramHeader::parse_all(&table))
}

/// The code segments.
pub fn code_segments(headers: &[ProgramHeader]) -> impl Iterator<Item = &ProgramHeader> {
    headers.iter().filter(|header| header.kind == LOAD && header.flags & EXECUTABLE != 0)
}

/// The ends of code pages with at least [`ROOM_BYTES`] unused bytes.
fn tails(headers: &[ProgramHeader], bias: u64) -> impl Iterator<Item = u64> + '_ {
    code_segments(headers).filter_map(move |segment| {
        let end = bias.wrapping_add(segment.end());
        let room = end.checked_next_multiple_of(PAGE_BYTES)?.checked_sub(ROOM_BYTES as u64)?;
        (room >= end).then_some(room)
    })
}

/// Whether the linker left these bytes empty, so that nobody reads them.
fn is_empty(memory: &File, address: u64) -> bool {
    let mut bytes = [0; ROOM_BYTES];
    memory.read_exact_at(&mut bytes, address).is_ok() && bytes == [0; ROOM_BYTES]
}
