//! Output files for results.

use crate::error::{Error, Fault};
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// An output file whose path is tried before the work begins, so that a bad one is found early. If the work fails or is
/// interrupted, nothing is lost and nothing is left: old contents are replaced, and a new file is made, only when the
/// result is written.
pub struct Output {
    path: PathBuf,
    /// The file, if it already existed.
    old: Option<File>,
}

impl Output {
    /// Checks that `path` can be written.
    pub fn open(path: &Path) -> Result<Output, Error> {
        let mut options = OpenOptions::new();
        let old = match options.write(true).create_new(true).open(path) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                options.create_new(false).create(true).truncate(false).open(path).map(Some)
            }
            made => made.and_then(|_| std::fs::remove_file(path)).map(|()| None),
        };
        let old = old.map_err(|e| {
            Error::new(Fault::Failed, format!("cannot write {}: {e}", path.display()))
                .or("choose another place")
        })?;
        Ok(Output { path: path.to_owned(), old })
    }

    /// Opens `path` for writing. It must be none of the work's `inputs`, which it would overwrite.
    pub fn open_apart<'a>(path: &Path, inputs: impl IntoIterator<Item = &'a Path>) -> Result<Output, Error> {
        let file = |path: &Path| std::fs::metadata(path).ok().filter(|found| found.is_file());
        let is = |found: &Metadata| (found.dev(), found.ino());
        if let Some(output) = file(path)
            && let Some(input) =
                inputs.into_iter().find(|input| file(input).is_some_and(|at| is(&at) == is(&output)))
        {
            let message = match input == path {
                true => format!("{} is both input and output", path.display()),
                false => format!("{} is the input {}", path.display(), input.display()),
            };
            return Err(Error::new(Fault::Usage, message).or("choose another place"));
        }
        Output::open(path)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file already existed.
    pub fn was_there(&self) -> bool {
        self.old.is_some()
    }

    /// The emptied file.
    pub fn begin(self) -> io::Result<File> {
        let Some(file) = self.old else { return File::create(self.path) };
        // Devices and pipes cannot be truncated.
        if file.metadata()?.is_file() {
            file.set_len(0)?;
        }
        Ok(file)
    }

    /// Replaces the file's contents.
    pub fn write(self, bytes: &[u8]) -> Result<PathBuf, Error> {
        let path = self.path.clone();
        let written = self.begin().and_then(|mut file| file.write_all(bytes));
        written.map_err(|e| cannot_write(&path, &e))?;
        Ok(path)
    }
}

/// The error for a failed write after the work began.
pub fn cannot_write(path: &Path, error: &io::Error) -> Error {
    Error::new(Fault::Failed, format!("writing {}: {error}", path.display()))
}
