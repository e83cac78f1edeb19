//! Finds the debug information of a stripped file.
//!
//! Distributions ship it separately: under the build-id, or under the name in the file's debug link. Both are checked
//! to belong to the file, because another build's debug information names wrong lines.

use crate::object_file::{ObjectFile, build_id_of, open_file};
use std::io::Read;
use std::path::{Path, PathBuf};

/// The file with the debug information of `object`, which lies at `path`.
pub(crate) fn find(debug_folder: &Path, path: &Path, object: &ObjectFile) -> Option<PathBuf> {
    by_build_id(debug_folder, object).or_else(|| by_debug_link(debug_folder, path, object))
}

fn by_build_id(debug_folder: &Path, object: &ObjectFile) -> Option<PathBuf> {
    let id = object.build_id.as_deref()?;
    let (first, rest) = id.split_at_checked(2)?;
    let path = debug_folder.join(".build-id").join(first).join(format!("{rest}.debug"));
    (build_id_of(&path).as_deref() == Some(id)).then_some(path)
}

fn by_debug_link(debug_folder: &Path, path: &Path, object: &ObjectFile) -> Option<PathBuf> {
    let (name, checksum) = object.debug_link.as_ref()?;
    let folder = path.parent()?;
    // The format has plain names; a path could lead anywhere.
    if name.contains('/') {
        return None;
    }
    let below_debug = debug_folder.join(folder.strip_prefix("/").unwrap_or(folder));
    [folder.to_owned(), folder.join(".debug"), below_debug]
        .into_iter()
        .map(|folder| folder.join(name))
        .find(|candidate| candidate != path && checksum_of(candidate).is_ok_and(|found| found == *checksum))
}

fn checksum_of(path: &Path) -> std::io::Result<u32> {
    let mut file = open_file(path)?;
    let mut hasher = crc32fast::Hasher::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.finalize()),
            bytes => hasher.update(&buffer[..bytes]),
        }
    }
}

/// The file that shares debug information with `debug_file`, if one is named by path and build-id and exists.
pub(crate) fn shared_part(debug_file: &Path, alt_link: Option<&(String, String)>) -> Option<PathBuf> {
    let (path, build_id) = alt_link?;
    let path = debug_file.parent()?.join(path);
    (build_id_of(&path).as_ref() == Some(build_id)).then_some(path)
}
