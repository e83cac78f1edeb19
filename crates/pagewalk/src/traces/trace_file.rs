//! Files that traces are written to.

use crate::error::{Error, Fault};
use crate::output::Output;
use pagewalk_trace::pwt::{MAGIC_BYTES, begins};
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// The file for a trace that is made from `inputs`, if it is made from files. Only an older trace is replaced: the name
/// may be that of a program, or of its source.
///
/// # Errors
/// If the file cannot be written, or is something else.
pub fn output<'a>(path: &Path, inputs: impl IntoIterator<Item = &'a Path>) -> Result<Output, Error> {
    if path == Path::new("-") {
        let why = "a trace goes to a file, and `-` names none";
        return Err(Error::new(Fault::Usage, why).or("give a path, such as trace.pwt"));
    }
    let output = Output::open_apart(path, inputs)?;
    if !may_replace(path) {
        let why = format!("{} is no trace, and a trace would replace it", path.display());
        return Err(Error::new(Fault::Usage, why).or("choose another name"));
    }
    Ok(output)
}

/// Whether nothing but an older trace would be lost with a file's contents.
fn may_replace(path: &Path) -> bool {
    if !path.is_file() {
        return true;
    }
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAGIC_BYTES).read_to_end(&mut head));
    // Writing tells what is wrong with a file that cannot be read.
    read.is_err() || head.is_empty() || begins(&head)
}

/// The file of another image of the program.
///
/// # Errors
/// As [`output`].
pub fn create(path: &Path) -> io::Result<File> {
    if !may_replace(path) {
        return Err(io::Error::new(ErrorKind::AlreadyExists, "it is no trace, and a trace would replace it"));
    }
    File::create(path)
}
