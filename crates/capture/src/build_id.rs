//! GNU build-ids of mapped files.

use object::LittleEndian;
use object::elf::{FileHeader64, NT_GNU_BUILD_ID, PT_NOTE};
use object::read::ReadCache;
use object::read::elf::{FileHeader, ProgramHeader};
use rustc_hash::FxHashMap;
use std::fmt::Write;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::{Mutex, PoisonError};

/// Longest note segment to read.
const MAX_NOTE_BYTES: u64 = 1 << 16;
/// Most program headers to read.
const MAX_PROGRAM_HEADERS: usize = 256;
/// Longest accepted build-id; linkers make 8 to 20 bytes.
const MAX_ID_BYTES: usize = 64;
/// Paths kept before the cache starts over.
const MAX_PATHS: usize = 4096;

/// Build-ids by path, shared by the streams of a session.
#[derive(Debug, Default)]
pub(crate) struct BuildIds {
    by_path: Mutex<FxHashMap<String, Option<String>>>,
}

impl BuildIds {
    /// The lower-case hex build-id of the file at `path`; `None` if it is no ELF file, has none or is unreadable: then
    /// a report merely says less.
    pub fn get(&self, path: &str) -> Option<String> {
        let mut by_path = self.by_path.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = by_path.get(path) {
            return known.clone();
        }
        if by_path.len() >= MAX_PATHS {
            by_path.clear();
        }
        let id = read(path);
        by_path.insert(path.to_owned(), id.clone());
        id
    }
}

/// Reads headers and notes only, never the whole file.
fn read(path: &str) -> Option<String> {
    // Without O_NONBLOCK, opening a FIFO in the file's place would wait for a writer.
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let file: File = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let cache = ReadCache::new(file);
    let header = FileHeader64::<LittleEndian>::parse(&cache).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, &cache).ok()?;
    for segment in segments.iter().take(MAX_PROGRAM_HEADERS) {
        if segment.p_type(endian) != PT_NOTE || segment.p_filesz(endian) > MAX_NOTE_BYTES {
            continue;
        }
        let Ok(Some(mut notes)) = segment.notes(endian, &cache) else { continue };
        while let Ok(Some(note)) = notes.next() {
            let id = note.desc();
            if note.name() == b"GNU" && note.n_type(endian) == NT_GNU_BUILD_ID && id.len() <= MAX_ID_BYTES {
                return Some(hex(id));
            }
        }
    }
    None
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn reads_the_id_that_the_linker_was_told() {
        let directory = tempfile::tempdir().unwrap();
        let (source, program) = (directory.path().join("a.c"), directory.path().join("a"));
        std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
        let status = Command::new("gcc")
            .arg("-Wl,--build-id=0xDEADBEEF00112233")
            .args([source.as_os_str(), "-o".as_ref(), program.as_os_str()])
            .status()
            .unwrap();
        assert!(status.success());
        let ids = BuildIds::default();
        let program = program.to_str().unwrap();
        assert_eq!(ids.get(program).as_deref(), Some("deadbeef00112233"));
        std::fs::remove_file(program).unwrap();
        assert_eq!(ids.get(program).as_deref(), Some("deadbeef00112233"), "from the cache");
    }

    #[test]
    fn odd_files_have_none() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("odd");
        let whole = std::fs::read("/bin/true").unwrap();
        for bytes in [&b""[..], b"\x7fELF", &whole[..64], &whole[..100], &[0xff; 4096]] {
            std::fs::write(&file, bytes).unwrap();
            assert_eq!(read(file.to_str().unwrap()), None);
        }
        assert_eq!(read("/dev/zero"), None);
        assert_eq!(read("/"), None);
        assert_eq!(read("/no/such/file"), None);
    }
}
