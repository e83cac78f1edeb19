//! Finds the files to import.

use super::bad;
use crate::error::{Error, Fault};
use pagewalk_capture::import::{Bytes, Input};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// Bytes read from a file at a time: small, as there may be a file for each of many threads.
const PIECE_BYTES: usize = 128 << 10;
/// Folders inside each other in which files are found.
const MAX_DEPTH: usize = 4;

/// The files of one experiment.
pub struct Inputs {
    /// What to call them in messages.
    pub name: PathBuf,
    /// Their paths.
    pub paths: Vec<PathBuf>,
    /// The files. Those on a disk are only opened when they are read, as a folder may have many that are not.
    pub files: Vec<Input>,
}

/// A file on a disk, opened when it is first read.
struct LazyFile {
    path: PathBuf,
    reader: Option<BufReader<File>>,
}

impl LazyFile {
    fn reader(&mut self) -> io::Result<&mut BufReader<File>> {
        let reader = match self.reader.take() {
            Some(reader) => reader,
            None => BufReader::with_capacity(PIECE_BYTES, File::open(&self.path).map_err(open_error)?),
        };
        Ok(self.reader.insert(reader))
    }
}

impl Read for LazyFile {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.reader()?.read(into)
    }
}

impl BufRead for LazyFile {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.reader()?.fill_buf()
    }

    fn consume(&mut self, bytes: usize) {
        self.reader.iter_mut().for_each(|reader| reader.consume(bytes));
    }
}

/// Names the limit if too many files are open.
fn open_error(error: io::Error) -> io::Error {
    if error.raw_os_error() != Some(Errno::MFILE.raw_os_error()) {
        return error;
    }
    let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    io::Error::other(format!(
        "at most {most} files can be open at once (`ulimit -n`), and those of a process's threads are read together"
    ))
}

/// Opens what is no file on a disk: a pipe, or standard input.
fn opened(path: &Path) -> io::Result<Bytes> {
    let file: Box<dyn Read + Send> = match path == Path::new("-") {
        true => Box::new(io::stdin()),
        false => Box::new(File::open(path)?),
    };
    Ok(Box::new(BufReader::with_capacity(PIECE_BYTES, file)))
}

impl Inputs {
    /// Opens files, all files in folders, and standard input where the path is `-`.
    ///
    /// # Errors
    /// If one cannot be opened or is empty, or there is nothing in a folder.
    pub fn open(paths: &[PathBuf]) -> Result<Inputs, Error> {
        let [first, others @ ..] = paths else {
            return Err(Error::new(Fault::Usage, "there is no file to import"));
        };
        let name = match others.len() {
            0 => first.clone(),
            count => format!("{} and {count} more", first.display()).into(),
        };
        let mut inputs = Inputs { name, paths: Vec::new(), files: Vec::new() };
        for path in paths {
            if path.is_dir() {
                let before = inputs.files.len();
                inputs.add_folder(path, MAX_DEPTH)?;
                if inputs.files.len() == before {
                    return Err(bad(path, &"there is no file in the folder"));
                }
            } else {
                inputs.add(path, false)?;
            }
        }
        Ok(inputs)
    }

    fn add(&mut self, path: &Path, in_folder: bool) -> Result<(), Error> {
        let (is_empty, bytes): (bool, Bytes) = match fs::metadata(path) {
            Ok(about) if about.is_file() && path != Path::new("-") => {
                (about.len() == 0, Box::new(LazyFile { path: path.to_owned(), reader: None }))
            }
            _ => {
                let mut bytes = opened(path).map_err(|error| bad(path, &error))?;
                (bytes.fill_buf().map_err(|error| bad(path, &error))?.is_empty(), bytes)
            }
        };
        if is_empty && !in_folder {
            return Err(bad(path, &"the file is empty"));
        }
        self.files.push(Input { name: path.display().to_string(), bytes, in_folder });
        self.paths.push(path.to_owned());
        Ok(())
    }

    /// Adds the files in a folder by name, so that their order is always the same.
    fn add_folder(&mut self, folder: &Path, depth: usize) -> Result<(), Error> {
        let entries = fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let mut entries = entries.map_err(|error| bad(folder, &error))?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let path = entry.path();
            // A link to a folder may lead back to this one.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if depth > 1 {
                    self.add_folder(&path, depth - 1)?;
                }
            } else if path.is_file() {
                self.add(&path, true)?;
            }
        }
        Ok(())
    }
}
