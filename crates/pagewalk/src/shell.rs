//! Commands as a shell takes them, to be suggested.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Words, each quoted if it needs that.
pub fn joined<'a>(words: impl IntoIterator<Item = &'a OsStr>) -> String {
    let words: Vec<_> = words.into_iter().map(OsStr::to_string_lossy).collect();
    let joined = shlex::try_join(words.iter().map(AsRef::as_ref));
    joined.unwrap_or_else(|_| "CMD".to_owned())
}

/// A path, quoted if it needs that.
pub fn quoted(path: &Path) -> String {
    joined([path.as_os_str()])
}

/// A command after options: `-- ./app 'two words'`; `-- CMD` where none was given.
pub fn typed(command: &[OsString]) -> String {
    match command.is_empty() {
        true => "-- CMD".to_owned(),
        false => format!("-- {}", joined(command.iter().map(OsString::as_os_str))),
    }
}
