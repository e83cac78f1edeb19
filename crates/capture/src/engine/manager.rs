//! Prepares the address space manager of Valgrind's core for `placement.c`.
//!
//! The manager is one object of the core's static library. Its limits are static variables and a table of 30,000
//! segments, less than half of the mappings that Linux allows. So the build extracts the object, makes the variables
//! visible, and enlarges the table: it is last in the object's zeroed memory, and a single comparison guards it.

use super::EngineError;
use object::LittleEndian;
use object::elf::{FileHeader64, SHT_NOBITS};
use object::read::archive::ArchiveFile;
use object::read::elf::{FileHeader, SectionHeader, Sym};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

const OBJECT: &[u8] = b"libcoregrind_amd64_linux_a-aspacemgr-linux.o";
const TABLE: &str = "nsegments";
/// Symbols that `placement.c` uses.
const VISIBLE: &[&str] = &[TABLE, "nsegments_used", "aspacem_minAddr", "aspacem_maxAddr", "aspacem_vStart"];
/// `sizeof(NSegment)`.
const SEGMENT_BYTES: u64 = 72;
/// For the 65,530 mappings that Linux allows by default, as many gaps, and Valgrind's own.
const SEGMENTS: u32 = 200_000;
/// Offset of the size in a section header.
const SECTION_SIZE_AT: usize = 32;

/// The manager to link instead of the library's.
pub(super) struct Manager {
    /// The object file.
    pub object: PathBuf,
    /// Its table's capacity, in segments.
    pub segments: u64,
}

impl Manager {
    /// Extracts the manager from the core's `library` into the folder `work`. An error says what is not as expected.
    pub(super) fn take(library: &Path, work: &Path) -> Result<Manager, EngineError> {
        let archive = fs::read(library).map_err(|e| EngineError::file("read", library, e))?;
        let unlike = |what: &str| EngineError::Core { library: library.to_owned(), what: what.to_owned() };
        let member =
            find_member(&archive).ok_or_else(|| unlike("the object of the address space manager"))?;
        let (bytes, segments) = enlarge(member).ok_or_else(|| unlike("the manager's table of segments"))?;
        let (plain, object) = (work.join("manager-plain.o"), work.join("manager.o"));
        fs::write(&plain, bytes).map_err(|e| EngineError::file("write", &plain, e))?;
        let mut objcopy = Command::new("objcopy");
        objcopy.args(VISIBLE.iter().map(|name| format!("--globalize-symbol={name}")));
        let output = objcopy.arg(&plain).arg(&object).output();
        let output = output.map_err(|e| match e.kind() {
            ErrorKind::NotFound => EngineError::NoObjcopy,
            _ => EngineError::file("run", Path::new("objcopy"), e),
        })?;
        if !output.status.success() {
            return Err(unlike(String::from_utf8_lossy(&output.stderr).trim()));
        }
        Ok(Manager { object, segments })
    }
}

fn find_member(archive: &[u8]) -> Option<&[u8]> {
    let members = ArchiveFile::parse(archive).ok()?.members();
    let member = members.filter_map(Result::ok).find(|member| member.name() == OBJECT)?;
    member.data(archive).ok()
}

/// The object with a larger table, if possible, and the table's capacity in segments.
fn enlarge(object: &[u8]) -> Option<(Vec<u8>, u64)> {
    let header = FileHeader64::<LittleEndian>::parse(object).ok()?;
    let sections = header.sections(LittleEndian, object).ok()?;
    let symbols = sections.symbols(LittleEndian, object, object::elf::SHT_SYMTAB).ok()?;
    let named = |name: &&str| {
        symbols.iter().find(|symbol| symbol.name(LittleEndian, symbols.strings()) == Ok(name.as_bytes()))
    };
    if !VISIBLE.iter().all(|name| named(name).is_some()) {
        return None;
    }
    let table = named(&TABLE)?;
    let (start, bytes) = (table.st_value(LittleEndian), table.st_size(LittleEndian));
    let segments = bytes / SEGMENT_BYTES;
    let (index, zeroed) = sections.enumerate().find(|(index, section)| {
        index.0 == usize::from(table.st_shndx(LittleEndian).0) && section.sh_type(LittleEndian) == SHT_NOBITS
    })?;
    let (_, code) = sections.section_by_name(LittleEndian, b".text")?;
    let (code_at, code_bytes) = code.file_range(LittleEndian)?;
    let code = code_at as usize..(code_at + code_bytes) as usize;
    let guard = (u32::try_from(segments).ok()? - 1).to_le_bytes();
    let guards: Vec<usize> = object
        .get(code.clone())?
        .windows(4)
        .enumerate()
        .filter(|(_, four)| *four == guard)
        .map(|(at, _)| at)
        .collect();
    let mut bytes_out = object.to_vec();
    let &[guard_at] = guards.as_slice() else { return Some((bytes_out, segments)) };
    if bytes % SEGMENT_BYTES != 0 || start + bytes != zeroed.sh_size(LittleEndian) {
        return Some((bytes_out, segments));
    }
    let larger = start + u64::from(SEGMENTS) * SEGMENT_BYTES;
    let size_at = header.e_shoff(LittleEndian) as usize
        + index.0 * usize::from(header.e_shentsize(LittleEndian))
        + SECTION_SIZE_AT;
    bytes_out.get_mut(size_at..size_at + 8)?.copy_from_slice(&larger.to_le_bytes());
    bytes_out
        .get_mut(code.start + guard_at..code.start + guard_at + 4)?
        .copy_from_slice(&(SEGMENTS - 1).to_le_bytes());
    Some((bytes_out, u64::from(SEGMENTS)))
}
