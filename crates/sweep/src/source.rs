//! The files that a study is read from.

use crate::error::SweepError;
use crate::study::Study;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// A study's file and all others that it names, as they were when they were first read. Sent to another process, they
/// make the same study there, whatever files that process sees.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StudyFiles {
    /// The study's file.
    file: PathBuf,
    /// What was read, by path.
    texts: BTreeMap<PathBuf, String>,
    /// BLAKE3 hashes, in hex, of files that only programs read.
    hashes: BTreeMap<PathBuf, String>,
    /// Whether what is missing may be read from this host's files: not in another process.
    #[serde(skip)]
    is_open: bool,
}

impl StudyFiles {
    /// The files of the study at `path`, none read yet.
    pub fn at(path: &Path) -> StudyFiles {
        StudyFiles { file: path.to_owned(), texts: BTreeMap::new(), hashes: BTreeMap::new(), is_open: true }
    }

    /// The study. Paths in it start from its folder.
    ///
    /// # Errors
    /// If a file cannot be read or is wrong.
    pub fn study(&mut self) -> Result<Study, SweepError> {
        let path = self.file.clone();
        let name = path.display().to_string();
        let text =
            self.text(&path).map_err(|e| SweepError::Study { file: name.clone(), why: e.to_string() })?;
        Study::with_files(&name, &text, path.parent().unwrap_or(Path::new("")), self)
    }

    /// The text of a file.
    pub(crate) fn text(&mut self, path: &Path) -> io::Result<String> {
        let read = || std::fs::read_to_string(path);
        known(&mut self.texts, path, self.is_open, read)
    }

    /// The hash of a file.
    pub(crate) fn hash(&mut self, path: &Path) -> io::Result<String> {
        let read = || Ok(blake3::hash(&std::fs::read(path)?).to_hex().to_string());
        known(&mut self.hashes, path, self.is_open, read)
    }
}

/// What is known of a file; if nothing, what `read` says.
fn known(
    all: &mut BTreeMap<PathBuf, String>,
    path: &Path,
    is_open: bool,
    read: impl FnOnce() -> io::Result<String>,
) -> io::Result<String> {
    if let Some(known) = all.get(path) {
        return Ok(known.clone());
    }
    if !is_open {
        return Err(io::Error::new(io::ErrorKind::NotFound, "it was not sent with the study"));
    }
    let found = read()?;
    all.insert(path.to_owned(), found.clone());
    Ok(found)
}
