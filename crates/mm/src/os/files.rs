//! Files that a kernel's table names: their text replaces their name, so that results and their identity depend on the
//! content, not on the path.

use crate::frames::BuddyInfo;
use crate::placement::FrameList;
use std::fmt;
use toml::{Table, Value};

/// A key whose value names a file, or is its text.
struct FileKey {
    /// The tables that hold the key, and the key.
    path: &'static [&'static str],
    /// How messages name it.
    name: &'static str,
    /// How the text begins, unlike any name of a file.
    start: &'static str,
    /// Says what is wrong with a text, and in which line.
    check: fn(&str) -> Option<String>,
}

/// All such keys: one entry each.
const FILES: &[FileKey] = &[
    FileKey {
        path: &["memory", "initial", "buddyinfo"],
        name: "memory: buddyinfo",
        start: "Node",
        check: |text| text.parse::<BuddyInfo>().err().map(|error| error.to_string()),
    },
    FileKey {
        path: &["placement", "frames"],
        name: "placement.frames",
        start: FrameList::START,
        check: |text| text.parse::<FrameList>().err().map(|error| error.to_string()),
    },
];

/// Replaces the name of each file by its text.
///
/// # Errors
/// Errors of `read`, and texts that the key does not take, with the file's name and the line.
pub fn read_files<E: fmt::Display>(
    table: &mut Table,
    mut read: impl FnMut(&str) -> Result<String, E>,
) -> Result<(), String> {
    for FileKey { path, name, start, check } in FILES {
        let Some(Value::String(file)) = value(table, path) else { continue };
        if file.trim_start().starts_with(start) {
            continue;
        }
        let text = read(file).map_err(|why| format!("{name} = \"{file}\": {why}"))?;
        if let Some(why) = check(&text) {
            return Err(format!("{name} = \"{file}\": {why}"));
        }
        *file = text;
    }
    Ok(())
}

fn value<'a>(table: &'a mut Table, path: &[&str]) -> Option<&'a mut Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(table.get_mut(*first)?, |value, key| value.get_mut(key))
}
