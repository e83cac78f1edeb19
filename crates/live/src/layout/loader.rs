//! Examines a process right after exec: its loader, the loader's calls of `mmap`, and room for a few bytes of code.

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

/// Most loader code to search; glibc's has 150 KiB.
const CODE_BYTES_MAX: u64 = 16 << 20;
/// Most calls of `mmap` in a loader; glibc's has one.
const SITES_MAX: usize = 8;

/// A process's loader.
pub struct Loader {
    /// The addresses of its calls of `mmap`.
    pub sites: Vec<u64>,
    /// How it queries a file's inode number.
    pub asks: StatCall,
    /// Its base address.
    pub base: u64,
    /// The first address after its last page.
    pub end: u64,
    /// [`crate::tracing::image::ROOM_BYTES`] of unused executable memory.
    pub room: u64,
}

/// Known loaders, by device and inode.
#[derive(Default)]
pub struct LoaderCache(HashMap<(u64, u64), LoaderSites>);

/// Offsets in a loader's code.
#[derive(Clone)]
struct LoaderSites {
    sites: Vec<u64>,
    asks: StatCall,
}

impl Loader {
    /// Examines a process at its exec stop.
    pub fn examine(
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
        // A site is replaced by one write, which must be atomic: it must lie in one page.
        let in_one_page = |site: &u64| site % PAGE_BYTES + SITE.len() as u64 <= PAGE_BYTES;
        let good = (1..=SITES_MAX).contains(&sites.len()) && sites.iter().all(in_one_page);
        good.then_some(LoaderSites { sites, asks })
    }

    /// Whether the code is still there.
    fn holds(&self, memory: &File, base: u64) -> bool {
        self.sites.iter().all(|site| {
            let mut bytes = [0; SITE.len()];
            memory.read_exact_at(&mut bytes, base + site).is_ok() && bytes == SITE
        })
    }
}

/// A process's memory, opened for reading and writing, and its mappings.
pub fn opened(pid: Pid) -> io::Result<(File, Vec<Mapping>)> {
    Ok((maps::memory(pid)?, maps::mappings(pid)?))
}
