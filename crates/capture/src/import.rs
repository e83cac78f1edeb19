//! Imports other tools' files: one file per format, with a line in [`IMPORTERS`].
//!
//! A format reads bytes; the containers around them (`import/container.rs`) are already gone. A line-based one is a
//! `Grammar` (`import/reader.rs`); shared parts (line ends, batches, errors with line numbers, notes on skipped lines)
//! are implemented once. Nothing in a file is trusted.

mod addresses;
mod assembler;
mod champsim;
pub(crate) mod container;
mod digits;
mod din;
pub(crate) mod drmemtrace;
mod gem5;
mod head;
mod lackey;
mod lz4;
mod notes;
mod numbers;
mod open_batch;
mod oracle;
mod places;
mod reader;
mod records;
mod table;
#[cfg(test)]
pub(crate) mod transcript;
mod zip;

pub use container::Bytes;
pub use head::Head;
pub use lackey::LackeySource;
pub use notes::Notes;
pub use reader::TextSource;

use container::{check_readable, peeked, unpacked};
use pagewalk_trace::{Source, SourceError};

/// A readable format.
pub struct Importer {
    /// Its name for `--format`.
    pub name: &'static str,
    /// Who writes such files, as a phrase that continues "NAME is".
    pub about: &'static str,
    /// Whether the beginning of an unpacked file has this format's form. What could be in any file does not count.
    recognises: fn(&Head<'_>) -> bool,
    open: Opener,
}

/// Makes a stream of unpacked files.
enum Opener {
    /// Each file is a stream of its own.
    One(fn(Bytes) -> Result<Import, SourceError>),
    /// Several files of one experiment are one stream, in the order given.
    Several(fn(Vec<Input>) -> Result<Import, SourceError>),
}

/// All formats, in the order of messages.
pub static IMPORTERS: &[Importer] = &[
    lackey::FORMAT,
    din::FORMAT,
    drmemtrace::FORMAT,
    addresses::FORMAT,
    champsim::FORMAT,
    gem5::FORMAT,
    oracle::PAGES,
    oracle::BLOCKS,
    oracle::OBJECTS,
    numbers::PAGES,
    numbers::BLOCKS,
    table::FORMAT,
];

/// Most files of one experiment: they are read together, each with some buffers.
const FILES_MAX: usize = 4096;

type Format = &'static Importer;

/// A file to import.
pub struct Input {
    /// Its name in messages.
    pub name: String,
    /// Its contents.
    pub bytes: Bytes,
    /// Whether it was only found in a folder: then it may be of no format.
    pub in_folder: bool,
}

/// Files as a stream.
pub struct Import {
    /// The stream.
    pub source: Box<dyn Source + Send>,
    /// Further observations, complete at the end of the stream.
    pub notes: Notes,
}

/// Opened files of an experiment.
pub struct Opened {
    /// Their format.
    pub format: Format,
    /// Their stream.
    pub import: Import,
    /// Names of files in folders that are not of this format.
    pub passed_over: Vec<String>,
}

/// Why files cannot be read as any format.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// No known format in its beginning.
    #[error(
        "{beginning}, and nothing in the file's first {} KiB is of a format that is read here; --format says which it \
         is to be: {}",
        Head::BYTES / 1024, names(IMPORTERS.iter())
    )]
    Unrecognised {
        /// Its beginning, as a clause.
        beginning: String,
    },
    /// The beginning is of several formats.
    #[error("the file has the form of several formats: {0}; --format NAME says which it is to be")]
    Ambiguous(String),
    /// The files are of different formats.
    #[error("the files are of several formats: {0}; --format NAME reads only those of one")]
    Mixed(String),
    /// No file of a folder is of a format.
    #[error("no file in it is of a format that is read here: {}", formats(IMPORTERS.iter()))]
    Nothing,
    /// Files of a format that do not belong together.
    #[error("a file of format {format} is a stream of its own, and here are {files}: import one at a time")]
    Apart {
        /// The format.
        format: &'static str,
        /// Number of files.
        files: usize,
    },
    /// There are too many files.
    #[error("there are more than {FILES_MAX} files, and at most so many are read together")]
    TooMany,
    /// It cannot be unpacked, or is damaged.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// One of several files is wrong.
    #[error("{name}: {why}")]
    In {
        /// The file.
        name: String,
        /// What is wrong.
        why: Box<ImportError>,
    },
}

/// Opens the files of one experiment, whatever packs them, in the given format or the one recognised from their
/// beginnings. Files in folders that are of no format, or not of the given one, are passed over.
pub fn open(files: Vec<Input>, format: Option<Format>) -> Result<Opened, ImportError> {
    let is_single = files.len() == 1;
    let (mut kept, mut passed_over, mut found) = (Vec::new(), Vec::new(), Vec::new());
    for file in files {
        let name = file.name.clone();
        let outcome = examined(file, format);
        let outcome = match outcome {
            Err(why) if !is_single => Err(ImportError::In { name: name.clone(), why: Box::new(why) }),
            outcome => outcome,
        };
        match outcome? {
            Some((format, file)) => {
                if !found.iter().any(|one: &Format| one.name == format.name) {
                    found.push(format);
                }
                kept.push(file);
                if kept.len() > FILES_MAX {
                    return Err(ImportError::TooMany);
                }
            }
            None => passed_over.push(name),
        }
    }
    let format = match found[..] {
        [] => return Err(ImportError::Nothing),
        [format] => format,
        _ => return Err(ImportError::Mixed(formats(found.iter().copied()))),
    };
    let import = opened(format, kept)?;
    Ok(Opened { format, import, passed_over })
}

/// The importer of this name.
pub fn importer(name: &str) -> Option<Format> {
    IMPORTERS.iter().find(|importer| importer.name == name)
}

/// The file, unpacked, and its format; `None` if it is to be passed over.
fn examined(file: Input, format: Option<Format>) -> Result<Option<(Format, Input)>, ImportError> {
    let bytes = unpacked(file.bytes)?;
    if let (Some(format), false) = (format, file.in_folder) {
        return Ok(Some((format, Input { bytes, ..file })));
    }
    let (head, bytes) = peeked(bytes, Head::BYTES)?;
    let head = Head::new(&head);
    let among = IMPORTERS.iter().filter(|one| format.is_none_or(|format| format.name == one.name));
    let recognised: Vec<Format> = among.filter(|format| (format.recognises)(&head)).collect();
    match recognised[..] {
        [] if file.in_folder => Ok(None),
        [] => {
            check_readable(&head)?;
            Err(ImportError::Unrecognised { beginning: head.beginning() })
        }
        [format] => Ok(Some((format, Input { bytes, ..file }))),
        _ => Err(ImportError::Ambiguous(formats(recognised.iter().copied()))),
    }
}

/// Files of a format as one stream.
fn opened(format: Format, mut files: Vec<Input>) -> Result<Import, ImportError> {
    let import = match format.open {
        Opener::Several(open) => open(files),
        Opener::One(open) if files.len() == 1 => open(files.remove(0).bytes),
        Opener::One(_) => return Err(ImportError::Apart { format: format.name, files: files.len() }),
    };
    Ok(import?)
}

/// The formats as text.
fn names(of: impl Iterator<Item = Format>) -> String {
    of.map(|importer| importer.name).collect::<Vec<_>>().join(", ")
}

fn formats(of: impl Iterator<Item = Format>) -> String {
    let told = of.map(|importer| format!("{} ({})", importer.name, importer.about));
    told.collect::<Vec<_>>().join(", ")
}
