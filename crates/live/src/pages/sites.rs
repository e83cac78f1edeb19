//! Finds the instructions with which a process makes the system calls that a plan tracks.

use crate::tracing::maps::Mapping;
use crate::tracing::sys::map;
use pagewalk_units::PAGE_BYTES;
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Bytes of a site: a five-byte instruction, and `syscall`.
pub const SITE_BYTES: u64 = 7;
/// The bytes that a jump replaces.
pub const FIRST_BYTES: usize = 5;
const SYSCALL: [u8; 2] = [0x0f, 0x05];
/// `mov eax, N` for mmap, munmap, brk, mremap and prctl.
const NUMBERS: [u8; 5] = [9, 11, 12, 25, 157];
/// `mov r9, [rsp + 8]`: the end of glibc's `syscall`, whose number is an argument.
const ANY_NUMBER: [u8; FIRST_BYTES] = [0x4c, 0x8b, 0x4c, 0x24, 0x08];
/// Most code to search in one mapping.
const CODE_BYTES_MAX: u64 = 512 << 20;
/// Code read at once.
const CHUNK_BYTES: u64 = 1 << 20;

/// A system call instruction with the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallSite {
    /// Its address.
    pub address: u64,
    /// The instruction before `syscall`.
    pub first: [u8; FIRST_BYTES],
}

impl CallSite {
    /// Whether it maps memory: a program has at least one such site, from which its memory comes.
    pub fn maps(&self) -> bool {
        self.first == [0xb8, 9, 0, 0, 0] || self.first == [0xb8, 12, 0, 0, 0]
    }

    /// All its bytes.
    pub fn bytes(&self) -> [u8; SITE_BYTES as usize] {
        let [a, b, c, d, e] = self.first;
        [a, b, c, d, e, SYSCALL[0], SYSCALL[1]]
    }
}

/// Sites already found in files, as offsets, by device, inode and offset.
#[derive(Default)]
pub struct SiteCache(HashMap<(u64, u64, u64), Vec<CallSite>>);

impl SiteCache {
    /// All sites in code from files, in order.
    pub fn sites(&mut self, memory: &File, mappings: &[Mapping]) -> Vec<CallSite> {
        let code = mappings
            .iter()
            .filter(|mapping| mapping.protection & map::EXEC != 0 && mapping.inode != 0 && !mapping.shared);
        let mut all = Vec::new();
        for mapping in code {
            let key = (mapping.device, mapping.inode, mapping.offset);
            let found = self.0.entry(key).or_insert_with(|| search(memory, mapping));
            let moved = found.iter().map(|site| CallSite { address: mapping.start + site.address, ..*site });
            // Skips another version of the file, or changed code.
            all.extend(moved.filter(|site| stands(memory, site)));
        }
        all
    }
}

fn stands(memory: &File, site: &CallSite) -> bool {
    let mut bytes = [0; SITE_BYTES as usize];
    memory.read_exact_at(&mut bytes, site.address).is_ok() && bytes == site.bytes()
}

/// The sites of a mapping, as offsets from its start.
fn search(memory: &File, mapping: &Mapping) -> Vec<CallSite> {
    let mut sites = Vec::new();
    let mut chunk = Vec::new();
    let bytes = mapping.bytes().min(CODE_BYTES_MAX);
    let mut start = 0;
    while start < bytes {
        // Includes what a site needs of the chunk before.
        let from = start.saturating_sub(SITE_BYTES);
        let to = (start + CHUNK_BYTES).min(bytes);
        chunk.resize((to - from) as usize, 0);
        if memory.read_exact_at(&mut chunk, mapping.start + from).is_err() {
            // There is no code after the end of the file.
            break;
        }
        let found = in_code(&chunk).into_iter().map(|site| CallSite { address: from + site.address, ..site });
        sites.extend(found.filter(|site| !site.crosses_page()));
        start = to;
    }
    sites.dedup();
    sites
}

impl CallSite {
    /// A site is replaced by one write, which must be atomic: it must lie in one page.
    fn crosses_page(&self) -> bool {
        self.address % PAGE_BYTES + SITE_BYTES > PAGE_BYTES
    }
}

fn in_code(code: &[u8]) -> Vec<CallSite> {
    let windows = code.array_windows::<{ SITE_BYTES as usize }>().enumerate();
    let found = windows.filter_map(|(at, window)| {
        let [first @ .., call, back] = *window;
        if [call, back] != SYSCALL {
            return None;
        }
        let [opcode, number, 0, 0, 0] = first else {
            return (first == ANY_NUMBER).then_some(CallSite { address: at as u64, first });
        };
        // With such a prefix the instruction uses another register.
        let is_prefixed = at > 0 && code[at - 1] & 0xf1 == 0x41;
        (opcode == 0xb8 && NUMBERS.contains(&number) && !is_prefixed)
            .then_some(CallSite { address: at as u64, first })
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracing::maps;
    use crate::tracing::sys::Pid;

    #[test]
    fn sites_are_told_from_what_looks_alike() {
        let mut code = vec![0x90; 8];
        code.extend([0xb8, 9, 0, 0, 0, 0x0f, 0x05]); // at 8
        code.extend([0x41, 0xb8, 9, 0, 0, 0, 0x0f, 0x05]); // r8d
        code.extend([0xb8, 1, 0, 0, 0, 0x0f, 0x05]); // write
        code.extend([0xb8, 12, 1, 0, 0, 0x0f, 0x05]); // another number
        code.extend([0x4c, 0x8b, 0x4c, 0x24, 0x08, 0x0f, 0x05]); // at 37
        code.extend([0xb8, 12, 0, 0, 0, 0x0f, 0x05]); // at 44
        let found: Vec<u64> = in_code(&code).iter().map(|site| site.address).collect();
        assert_eq!(found, [8, 37, 44]);
        assert_eq!(in_code(&code)[0].bytes(), code[8..15]);
        assert!(CallSite { address: 4092, first: ANY_NUMBER }.crosses_page());
    }

    #[test]
    fn this_process_maps_memory_somewhere() {
        let pid = std::process::id() as Pid;
        let (memory, mappings) = (maps::memory(pid).unwrap(), maps::mappings(pid).unwrap());
        let mut known = SiteCache::default();
        let sites = known.sites(&memory, &mappings);
        assert!(sites.iter().any(CallSite::maps), "{sites:?}");
        assert_eq!(known.sites(&memory, &mappings), sites, "known now");
    }
}
