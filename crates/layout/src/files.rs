//! Compares a plan's files with those on this host.

use crate::elf::{FILE_HEADER_BYTES, FileHeader, KIND_DYNAMIC, LOAD, ProgramHeader, span};
use pagewalk_plan::{Layout, Place};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A plan's shared object on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its path in the plan.
    pub file: String,
    /// Its path without symbolic links.
    pub path: PathBuf,
    /// Its device, from `fstat`.
    pub device: u64,
    /// Its inode number.
    pub inode: u64,
    /// Its planned address.
    pub base: u64,
    /// Its mapped bytes, in whole pages.
    pub bytes: u64,
    /// The largest alignment of its segments.
    pub alignment: u64,
}

/// Why a plan does not fit this host's files.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// Missing or unreadable.
    #[error("{file} of the plan cannot be read: {error}")]
    Unreadable {
        /// The file.
        file: String,
        /// Why.
        error: io::Error,
    },
    /// Not a shared object.
    #[error("{file} of the plan is no shared object for x86-64")]
    NotAnObject {
        /// The file.
        file: String,
    },
    /// Another build.
    #[error("{file} is another build than the plan's: build-id {found}, planned for {planned}")]
    OtherBuild {
        /// The file.
        file: String,
        /// The plan's build-id.
        planned: String,
        /// The file's, or `none`.
        found: String,
    },
    /// Another size.
    #[error("{file} is another build than the plan's: {found:#x} bytes of pages, planned for {planned:#x}")]
    OtherSize {
        /// The file.
        file: String,
        /// The plan's size.
        planned: u64,
        /// The file's.
        found: u64,
    },
    /// Two names of one file.
    #[error("{first} and {second} of the plan are one file")]
    OneFile {
        /// One name.
        first: String,
        /// The other.
        second: String,
    },
}

/// Finds every object of a layout.
///
/// # Errors
/// For the first file that differs from the layout's.
pub fn objects(layout: &Layout) -> Result<Vec<Object>, FileError> {
    let mut objects: Vec<Object> = Vec::new();
    let mut by_number: HashMap<(u64, u64), usize> = HashMap::new();
    for place in &layout.places {
        let object = object(layout, place)?;
        if let Some(&first) = by_number.get(&(object.device, object.inode)) {
            return Err(FileError::OneFile { first: objects[first].file.clone(), second: object.file });
        }
        by_number.insert((object.device, object.inode), objects.len());
        objects.push(object);
    }
    Ok(objects)
}

fn object(layout: &Layout, place: &Place) -> Result<Object, FileError> {
    let ObjectFacts { path, device, inode, bytes, alignment, .. } = ObjectFacts::of(&place.file)?;
    let file = place.file.clone();
    if let Some(planned) = place.build_id.clone() {
        let found = build_id(&path).unwrap_or_else(|| "none".to_owned());
        if !found.eq_ignore_ascii_case(&planned) {
            return Err(FileError::OtherBuild { file, planned, found });
        }
    }
    if bytes != place.size {
        return Err(FileError::OtherSize { file, planned: place.size, found: bytes });
    }
    Ok(Object { file, path, device, inode, base: layout.base(place), bytes, alignment })
}

/// The place of this host's shared object at `offset` from an arena.
///
/// # Errors
/// If it cannot be read or is no shared object.
pub fn place(file: &str, offset: u64) -> Result<Place, FileError> {
    let facts = ObjectFacts::of(file)?;
    Ok(Place { file: file.to_owned(), build_id: build_id(&facts.path), offset, size: facts.bytes })
}

/// A shared object on this host.
struct ObjectFacts {
    path: PathBuf,
    device: u64,
    inode: u64,
    bytes: u64,
    alignment: u64,
}

impl ObjectFacts {
    fn of(file: &str) -> Result<ObjectFacts, FileError> {
        let unreadable = |error| FileError::Unreadable { file: file.to_owned(), error };
        let not_an_object = || FileError::NotAnObject { file: file.to_owned() };
        let path = fs::canonicalize(file).map_err(unreadable)?;
        let metadata = fs::metadata(&path).map_err(unreadable)?;
        if !metadata.is_file() {
            return Err(not_an_object());
        }
        let headers = headers(&path).map_err(unreadable)?.ok_or_else(not_an_object)?;
        let (_, bytes) = span(&headers).ok_or_else(not_an_object)?;
        let loads = headers.iter().filter(|header| header.kind == LOAD);
        let alignment = loads.map(|header| header.alignment).max().unwrap_or(1);
        Ok(ObjectFacts { path, device: metadata.dev(), inode: metadata.ino(), bytes, alignment })
    }
}

/// A shared object's program headers; none for another file.
fn headers(path: &Path) -> io::Result<Option<Vec<ProgramHeader>>> {
    let file = File::open(path)?;
    let mut bytes = [0; FILE_HEADER_BYTES];
    let whole = |outcome: io::Result<()>| match outcome {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        other => other.map(|()| true),
    };
    if !whole(file.read_exact_at(&mut bytes, 0))? {
        return Ok(None);
    }
    let Some(header) = FileHeader::parse(&bytes).filter(|header| header.kind == KIND_DYNAMIC) else {
        return Ok(None);
    };
    let mut table = vec![0; header.program_headers_bytes()];
    let is_whole = whole(file.read_exact_at(&mut table, header.program_headers))?;
    Ok(is_whole.then(|| ProgramHeader::parse_all(&table)))
}

fn build_id(path: &Path) -> Option<String> {
    pagewalk_symbols::build_id(path.to_str()?)
}

#[cfg(test)]
mod tests;
