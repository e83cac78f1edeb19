//! A process that has just become a program: its loader, where that maps files, and room for a few bytes of code.

use super::Obstacle;
use super::stub::{Asks, FSTAT, SITE};
use crate::tracing::maps::{self, Mapping};
use crate::tracing::sys::{self, Pid};
use pagewalk_layout::elf::{
    EXECUTABLE, FILE_HEADER_BYTES, FileHeader, HEADERS, LOAD, PROGRAM_HEADER_BYTES, PROGRAM_HEADERS_MAX,
    ProgramHeader, span,
};
use pagewalk_units::PAGE_BYTES;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes of room for code of ours.
pub const ROOM_BYTES: usize = 40;
/// A loader's code that is searched; glibc's has 150 KiB.
const CODE_BYTES_MAX: u64 = 16 << 20;
/// Calls of `mmap` in a loader; glibc's has one.
const SITES_MAX: usize = 8;

/// What is needed of a process.
pub struct Loader {
    /// The addresses of its calls of `mmap`.
    pub sites: Vec<u64>,
    /// How it asks for a file's number.
    pub asks: Asks,
    /// Where its file lies in memory.
    pub base: u64,
    /// Behind its last page there.
    pub end: u64,
    /// Where [`ROOM_BYTES`] of executable memory belong to nobody.
    pub room: u64,
}

/// What is known of loaders that were looked at, by device and number of their files.
#[derive(Default)]
pub struct Known(HashMap<(u64, u64), Found>);

/// What a loader's code holds, by distance from its base.
#[derive(Clone)]
struct Found {
    sites: Vec<u64>,
    asks: Asks,
}

impl Loader {
    /// Looks at a process at the stop of its exec.
    pub fn look(
        pid: Pid,
        memory: &File,
        mappings: &[Mapping],
        known: &mut Known,
    ) -> Result<Loader, Obstacle> {
        /// The code segment of 64-bit programs.
        const CODE_64: u64 = 0x33;
        if sys::registers(pid)?.cs != CODE_64 {
            return Err(Obstacle::Not64Bit);
        }
        let start = Vector::read(pid)?;
        if start.loader == 0 {
            return Err(Obstacle::Static);
        }
        let mapping = mappings.iter().find(|mapping| mapping.start == start.loader);
        let name = mapping.map_or_else(String::new, |mapping| mapping.name.clone());
        let headers =
            headers_at(memory, start.loader).ok_or_else(|| Obstacle::UnknownLoader(name.clone()))?;
        let number = mapping.map_or((0, 0), |mapping| (mapping.device, mapping.inode));
        let found = match known.0.get(&number) {
            Some(found) if found.holds(memory, start.loader) => found.clone(),
            _ => {
                let found =
                    Found::search(memory, start.loader, &headers).ok_or(Obstacle::UnknownLoader(name))?;
                known.0.insert(number, found.clone());
                found
            }
        };
        let program = start.program_headers(memory);
        let room = tails(&headers, start.loader)
            .chain(program.iter().flat_map(|(bias, headers)| tails(headers, *bias)))
            .find(|&tail| is_empty(memory, tail))
            .ok_or(Obstacle::NoRoom)?;
        let sites = found.sites.iter().map(|site| start.loader + site).collect();
        let end = start.loader + span(&headers).map_or(0, |(_, bytes)| bytes);
        Ok(Loader { sites, asks: found.asks, base: start.loader, end, room })
    }
}

impl Found {
    fn search(memory: &File, base: u64, headers: &[ProgramHeader]) -> Option<Found> {
        let (mut sites, mut asks) = (Vec::new(), Asks::Newfstatat);
        for segment in code_segments(headers) {
            let mut code = vec![0; segment.bytes.min(CODE_BYTES_MAX) as usize];
            memory.read_exact_at(&mut code, base.wrapping_add(segment.address)).ok()?;
            for (at, window) in code.array_windows::<7>().enumerate() {
                if *window == SITE {
                    sites.push(segment.address + at as u64);
                } else if *window == FSTAT {
                    asks = Asks::Fstat;
                }
            }
        }
        // A site is replaced by one write, which must not end halfway: it has to lie in one page.
        let in_one_page = |site: &u64| site % PAGE_BYTES + SITE.len() as u64 <= PAGE_BYTES;
        let good = (1..=SITES_MAX).contains(&sites.len()) && sites.iter().all(in_one_page);
        good.then_some(Found { sites, asks })
    }

    /// Whether the code still stands there.
    fn holds(&self, memory: &File, base: u64) -> bool {
        self.sites.iter().all(|site| {
            let mut bytes = [0; SITE.len()];
            memory.read_exact_at(&mut bytes, base + site).is_ok() && bytes == SITE
        })
    }
}

/// What the kernel tells a new program.
#[derive(Default)]
struct Vector {
    /// Where its loader lies; 0 if there is none.
    loader: u64,
    headers: u64,
    count: u64,
}

impl Vector {
    fn read(pid: Pid) -> io::Result<Vector> {
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

    /// The program's own headers, and how far from their addresses they lie. None of a program that does not tell.
    fn program_headers(&self, memory: &File) -> Option<(u64, Vec<ProgramHeader>)> {
        let count = self.count.min(PROGRAM_HEADERS_MAX.into()) as usize;
        let mut table = vec![0; count * PROGRAM_HEADER_BYTES];
        memory.read_exact_at(&mut table, self.headers).ok()?;
        let headers = ProgramHeader::parse_all(&table);
        let own = headers.iter().find(|header| header.kind == HEADERS)?.address;
        Some((self.headers.wrapping_sub(own), headers))
    }
}

/// The program headers of the object that lies at `base`.
fn headers_at(memory: &File, base: u64) -> Option<Vec<ProgramHeader>> {
    let mut bytes = [0; FILE_HEADER_BYTES];
    memory.read_exact_at(&mut bytes, base).ok()?;
    let header = FileHeader::parse(&bytes)?;
    let mut table = vec![0; header.program_headers_bytes()];
    memory.read_exact_at(&mut table, base.wrapping_add(header.program_headers)).ok()?;
    Some(ProgramHeader::parse_all(&table))
}

fn code_segments(headers: &[ProgramHeader]) -> impl Iterator<Item = &ProgramHeader> {
    headers.iter().filter(|header| header.kind == LOAD && header.flags & EXECUTABLE != 0)
}

/// The ends of the last pages of an object's code that are too long for it by [`ROOM_BYTES`] at least.
fn tails(headers: &[ProgramHeader], bias: u64) -> impl Iterator<Item = u64> + '_ {
    code_segments(headers).filter_map(move |segment| {
        let end = bias.wrapping_add(segment.end());
        let room = end.checked_next_multiple_of(PAGE_BYTES)?.checked_sub(ROOM_BYTES as u64)?;
        (room >= end).then_some(room)
    })
}

/// What the linker left empty, nobody reads.
fn is_empty(memory: &File, address: u64) -> bool {
    let mut bytes = [0; ROOM_BYTES];
    memory.read_exact_at(&mut bytes, address).is_ok() && bytes == [0; ROOM_BYTES]
}

/// Its memory for reading and writing, and its mappings.
pub fn opened(pid: Pid) -> io::Result<(File, Vec<Mapping>)> {
    Ok((maps::memory(pid)?, maps::mappings(pid)?))
}
