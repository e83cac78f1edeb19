//! One file's debug information: lines, and functions around addresses.
//!
//! Its loader opens further files of any type: the package next to it, and for functions each file that a split unit
//! names. Opening a pipe would block, so they are checked first.

use crate::Svma;
use crate::elf::Elf;
use crate::object_file::map_file;
use crate::symbolizer::demangled;
use addr2line::gimli::{Dwarf as Sections, DwarfSections, EndianSlice, RunTimeEndian, SectionId, Unit};
use addr2line::{Loader, Location};
use object::{Object, ObjectSection};
use std::borrow::Cow;
use std::cell::OnceCell;
use std::error::Error;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

type Bytes<'a> = EndianSlice<'a, RunTimeEndian>;

/// Loaded debug information.
pub(crate) struct Dwarf {
    path: PathBuf,
    loader: Loader,
    /// Whether split units have their own files; determined at the first look-up of a function.
    split_into_files: OnceCell<bool>,
}

impl Dwarf {
    /// Loads the file at `path`, which may share parts with another. Unreadable debug information counts as none.
    pub fn load(path: &Path, shared: Option<PathBuf>) -> Option<Dwarf> {
        if !is_file_or_nothing(&package(path)) {
            return None;
        }
        let loader = Loader::new_with_sup(path, shared).ok()?;
        Some(Dwarf { path: path.to_owned(), loader, split_into_files: OnceCell::new() })
    }

    /// File and line of `address`.
    pub fn location(&self, address: Svma) -> Option<Location<'_>> {
        self.loader.find_location(address.0).ok().flatten()
    }

    /// The outermost function around `address` (the one that was not inlined), for files with debug information but no
    /// symbol table.
    pub fn function(&self, address: Svma) -> Option<String> {
        let are_files =
            || split_parts(&self.path).is_ok_and(|parts| parts.iter().all(|part| is_file_or_nothing(part)));
        if !*self.split_into_files.get_or_init(are_files) {
            return None;
        }
        let mut frames = self.loader.find_frames(address.0).ok()?;
        let mut outermost = None;
        while let Ok(Some(frame)) = frames.next() {
            outermost = frame.function.and_then(|function| Some(demangled(&function.raw_name().ok()?)));
        }
        outermost
    }
}

/// The path of a file's package of split debug information.
fn package(path: &Path) -> PathBuf {
    let mut package = path.as_os_str().to_owned();
    package.push(".dwp");
    package.into()
}

fn is_file_or_nothing(path: &Path) -> bool {
    path.metadata().map_or(true, |about| about.is_file())
}

/// The files into which the units of the file at `path` are split.
fn split_parts(path: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let map = map_file(path)?;
    let elf = Elf::parse(&*map)?;
    let endian = if elf.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let contents = |id: SectionId| match elf.section_by_name(id.name()) {
        Some(section) => section.uncompressed_data(),
        None => Ok(Cow::default()),
    };
    let sections = DwarfSections::load(contents)?;
    let dwarf = sections.borrow(|bytes| EndianSlice::new(bytes, endian));
    let mut units = dwarf.units();
    let mut parts = Vec::new();
    while let Some(header) = units.next()? {
        parts.extend(split_part(&dwarf, &dwarf.unit(header)?)?);
    }
    Ok(parts)
}

/// The file with the rest of a unit, by the path that the loader uses.
fn split_part(
    dwarf: &Sections<Bytes<'_>>,
    unit: &Unit<Bytes<'_>>,
) -> Result<Option<PathBuf>, Box<dyn Error>> {
    let Some(name) = unit.dwo_name()? else { return Ok(None) };
    let name = dwarf.attr_string(unit, name)?;
    let folder = unit.comp_dir.map_or(&[][..], |folder| folder.slice());
    Ok(Some(Path::new(OsStr::from_bytes(folder)).join(OsStr::from_bytes(name.slice()))))
}
