//! Output files for results.

use crate::error::{Error, Fault};
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// An output file that is opened before the work begins, so that a bad path is found early. If the work fails, nothing
/// is lost: old contents are replaced only when the result is written, and a new file is removed again.
pub struct Output {
    path: PathBuf,
    file: File,
    /// Whether we created the file and have not written to it yet.
    is_empty_and_ours: bool,
}

impl Output {
    /// Opens `path` for writing.
    pub fn open(path: &Path) -> Result<Output, Error> {
        let mut options = OpenOptions::new();
        let (file, is_empty_and_ours) = match options.write(true).create_new(true).open(path) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                (options.create_new(false).create(true).truncate(false).open(path), false)
            }
            made => (made, true),
        };
        let file = file.map_err(|e| {
            Error::new(Fault::Failed, format!("cannot write {}: {e}", path.display()))
                .or("choose another place")
        })?;
        Ok(Output { path: path.to_owned(), file, is_empty_and_ours })
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
        !self.is_empty_and_ours
    }

    /// The emptied file.
    pub fn begin(mut self) -> io::Result<File> {
        self.is_empty_and_ours = false;
        // Devices and pipes cannot be truncated.
        if self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
        }
        self.file.try_clone()
    }

    /// Replaces the file's contents.
    pub fn write(self, bytes: &[u8]) -> Result<PathBuf, Error> {
        let path = self.path.clone();
        let written = self.begin().and_then(|mut file| file.write_all(bytes));
        written.map_err(|e| cannot_write(&path, &e))?;
        Ok(path)
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if self.is_empty_and_ours {
            // On failure an empty file stays, which is not worth a message.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// The error for a failed write after the work began.
pub fn cannot_write(path: &Path, error: &io::Error) -> Error {
    Error::new(Fault::Failed, format!("writing {}: {error}", path.display()))
}
