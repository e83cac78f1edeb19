//! A process that has just become a program: its loader, where that maps files, and room for a few bytes of code.

use super::Obstacle;
use super::stub::{FSTAT, SITE, StatCall};
use crate::tracing::image::{CODE_64, Vector, code_segments, headers_at};
use crate::tracing::maps::{self, Mapping};
use crate::tracing::sys::{self, Pid};
use pagewalk_layout::elf::{ProgramHeader, span};
use pagewalk_units::PAGE_BYTES;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// A loader's code that is searched; glibc's has 150 KiB.
const CODE_BYTES_MAX: u64 = 16 << 20;
/// Calls of `mmap` in a loader; glibc's has one.
const SITES_MAX: usize = 8;

/// What is needed of a process.
pub struct Loader {
    /// The addresses of its calls of `mmap`.
    pub sites: Vec<u64>,
    /// How it asks for a file's number.
    pub asks: StatCall,
    /// Where its file lies in memory.
    pub base: u64,
    /// Behind its last page there.
    pub end: u64,
    /// Where [`crate::tracing::image::ROOM_BYTES`] of executable memory belong to nobody.
    pub room: u64,
}

/// What is known of loaders that were looked at, by device and number of their files.
#[derive(Default)]
pub struct LoaderCache(HashMap<(u64, u64), LoaderSites>);

/// What a loader's code holds, by distance from its base.
#[derive(Clone)]
struct LoaderSites {
    sites: Vec<u64>,
    asks: StatCall,
}

impl Loader {
    /// Looks at a process at the stop of its exec.
    pub fn look(
        pid: Pid,
        memory: &File,
        mappings: &[Mapping],
        known: &mut LoaderCache,
    ) -> Result<Loader, Obstacle> {
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
                let found = LoaderSites::search(memory, start.loader, &headers)
                    .ok_or(Obstacle::UnknownLoader(name))?;
                known.0.insert(number, found.clone());
                found
            }
        };
        let room = start.room(memory, &headers).ok_or(Obstacle::NoRoom)?;
        let sites = found.sites.iter().map(|site| start.loader + site).collect();
        let end = start.loader + span(&headers).map_or(0, |(_, bytes)| bytes);
        Ok(Loader { sites, asks: found.asks, base: start.loader, end, room })
    }
}

impl LoaderSites {
    fn search(memory: &File, base: u64, headers: &[ProgramHeader]) -> Option<LoaderSites> {
        let (mut sites, mut asks) = (Vec::new(), StatCall::Newfstatat);
        for segment in code_segments(headers) {
            let mut code = vec![0; segment.bytes.min(CODE_BYTES_MAX) as usize];
            memory.read_exact_at(&mut code, base.wrapping_add(segment.address)).ok()?;
            for (at, window) in code.array_windows::<7>().enumerate() {
                if *window == SITE {
                    sites.push(segment.address + at as u64);
                } else if *window == FSTAT {
                    asks = StatCall::Fstat;
                }
            }
        }
        // A site is replaced by one write, which must not end halfway: it has to lie in one page.
        let in_one_page = |site: &u64| site % PAGE_BYTES + SITE.len() as u64 <= PAGE_BYTES;
        let good = (1..=SITES_MAX).contains(&sites.len()) && sites.iter().all(in_one_page);
        good.then_some(LoaderSites { sites, asks })
    }

    /// Whether the code still stands there.
    fn holds(&self, memory: &File, base: u64) -> bool {
        self.sites.iter().all(|site| {
            let mut bytes = [0; SITE.len()];
            memory.read_exact_at(&mut bytes, base + site).is_ok() && bytes == SITE
        })
    }
}

/// Its memory for reading and writing, and its mappings.
pub fn opened(pid: Pid) -> io::Result<(File, Vec<Mapping>)> {
    Ok((maps::memory(pid)?, maps::mappings(pid)?))
}
