//! An ELF file's segments, function symbols and build-id.

use crate::address::{Segment, file_offset, stated_address};
use crate::code::{Code, CodeSection};
use crate::elf::Elf;
use crate::pclntab::GoTable;
use crate::symbol_table::Function;
use crate::unwind::Extents;
use crate::{FileOffset, Svma};
use memmap2::Mmap;
use object::elf::{PF_X, SHF_EXECINSTR, STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE};
use object::{
    Endianness, Object, ObjectSection, ObjectSegment, ObjectSymbol, SectionFlags, SectionIndex, SegmentFlags,
};
use rustix::fs::OFlags;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Why an object file yields no symbols.
#[derive(Debug, thiserror::Error)]
#[error("no symbols from {}: {why}", path.display())]
pub struct ObjectError {
    /// The file.
    pub path: PathBuf,
    /// The reason.
    pub why: String,
}

/// The tables of one ELF file, copied out of it.
pub(crate) struct ObjectFile {
    segments: Vec<Segment>,
    pub functions: Vec<Function>,
    sections: Vec<CodeSection>,
    extents: Extents,
    /// The function table of a Go program.
    pub go: Option<GoTable>,
    /// Whether it has the linker's symbol table, which `strip` removes.
    pub has_symbols: bool,
    pub build_id: Option<String>,
    pub has_dwarf: bool,
    /// Name and checksum of its debug file, from `objcopy --add-gnu-debuglink`.
    pub debug_link: Option<(String, u32)>,
    /// Path and build-id of the file shared by several debug files (made by `dwz`).
    pub debug_alt_link: Option<(String, String)>,
}

impl ObjectFile {
    pub fn read(path: &Path) -> Result<ObjectFile, ObjectError> {
        let error = |why: String| ObjectError { path: path.to_owned(), why };
        let map = map_file(path).map_err(|e| error(e.to_string()))?;
        let elf = Elf::parse(&*map).map_err(|e| error(e.to_string()))?;
        let mut functions = functions(&elf);
        functions.extend(crate::plt::stubs(&elf));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(ObjectFile {
            segments: segments(&elf),
            functions,
            sections: code_sections(&elf),
            extents: Extents::read(&elf),
            go: GoTable::read(&elf),
            has_symbols: elf.symbol_table().is_some(),
            build_id: read_build_id(&elf),
            has_dwarf: elf.has_debug_symbols(),
            debug_link: elf.gnu_debuglink().ok().flatten().map(|(name, crc)| (text(name), crc)),
            debug_alt_link: elf
                .gnu_debugaltlink()
                .ok()
                .flatten()
                .map(|(name, id)| (text(name), hexadecimal(id))),
        })
    }

    pub fn stated_address(&self, offset: FileOffset) -> Option<Svma> {
        stated_address(&self.segments, offset)
    }

    /// The file offset of the function around `address`, from the unwind table.
    pub fn function_start(&self, address: Svma) -> Option<FileOffset> {
        file_offset(&self.segments, Svma(self.extents.around(address.0)?.start))
    }

    /// Its code, if `file` are its bytes.
    pub fn code<'a>(&'a self, file: &'a [u8]) -> Code<'a> {
        Code::new(&self.sections, &self.extents, file)
    }
}

/// The build-id of the file at `path`, in hexadecimal, if it is an ELF file that has one.
pub(crate) fn build_id_of(path: &Path) -> Option<String> {
    let map = map_file(path).ok()?;
    read_build_id(&Elf::parse(&*map).ok()?)
}

/// Opens a regular file: opening a device or a pipe that a program mapped could have effects or block, even if it takes
/// the file's place just now.
pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    let refused = || io::Error::other("not a regular file");
    if !fs::metadata(path)?.is_file() {
        return Err(refused());
    }
    let file = OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(refused()) }
}

/// Bytes of a regular file.
pub(crate) fn read_bytes(path: &Path, at: FileOffset, count: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; count];
    open_file(path)?.read_exact_at(&mut bytes, at.0)?;
    Ok(bytes)
}

/// Maps a regular file.
pub(crate) fn map_file(path: &Path) -> io::Result<Mmap> {
    let file = open_file(path)?;
    // SAFETY: the map is read-only and used by parsers that accept any bytes and check every bound against the mapped
    // length, so a file overwritten meanwhile gives wrong names at worst. Truncating it raises SIGBUS, as in the
    // program that runs from it.
    unsafe { Mmap::map(&file) }
}

fn read_build_id(elf: &Elf<'_>) -> Option<String> {
    let bytes = elf.build_id().ok().flatten().filter(|bytes| !bytes.is_empty())?;
    Some(hexadecimal(bytes))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn segments(elf: &Elf<'_>) -> Vec<Segment> {
    elf.segments()
        .map(|segment| {
            let (offset, bytes) = segment.file_range();
            let executable =
                matches!(segment.flags(), SegmentFlags::Elf { p_flags, .. } if p_flags.contains(PF_X));
            let address = Svma(segment.address());
            Segment { offset: FileOffset(offset), bytes, address, executable }
        })
        .collect()
}

fn is_executable<'data>(section: &impl ObjectSection<'data>) -> bool {
    matches!(section.flags(), SectionFlags::Elf { sh_flags, .. } if sh_flags.contains(SHF_EXECINSTR))
}

fn code_sections(elf: &Elf<'_>) -> Vec<CodeSection> {
    let section = |section: object::read::elf::ElfSection64<'_, '_, Endianness>| {
        let (offset, bytes) = section.file_range().unwrap_or_default();
        let addresses = section.address()..section.address().saturating_add(section.size());
        CodeSection { addresses, in_file: offset..offset.saturating_add(bytes) }
    };
    elf.sections().filter(is_executable).map(section).collect()
}

/// Function symbols of `.symtab` and `.dynsym`. Untyped labels count if they lie in code: hand-written assembly has
/// only those.
fn functions(elf: &Elf<'_>) -> Vec<Function> {
    let code_sections: Vec<usize> =
        elf.sections().filter(is_executable).map(|section| section.index().0).collect();
    let is_code = |index: SectionIndex| code_sections.contains(&index.0);
    elf.symbols()
        .chain(elf.dynamic_symbols())
        .filter(|symbol| match symbol.elf_symbol().st_type() {
            STT_FUNC | STT_GNU_IFUNC => symbol.is_definition(),
            STT_NOTYPE => symbol.section_index().is_some_and(is_code),
            _ => false,
        })
        .filter_map(|symbol| {
            let name = symbol.name().ok().filter(|name| !name.is_empty())?;
            Some(Function {
                start: Svma(symbol.address()),
                bytes: Some(symbol.size()).filter(|&bytes| bytes != 0),
                name: name.into(),
                global: symbol.is_global(),
            })
        })
        .collect()
}
