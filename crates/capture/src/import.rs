//! Imports other tools' files: one file per format, with a line in [`IMPORTERS`].
//!
//! A line-based format is a `Grammar` (`import/reader.rs`); shared parts (gzip, line ends, batches, errors with line
//! numbers, notes on skipped lines) are implemented once. Nothing in a file is trusted.

mod assembler;
mod compression;
mod digits;
mod din;
mod lackey;
mod notes;
mod reader;

pub use compression::Text;
pub use lackey::{LackeySource, LackeyWriter};
pub use notes::Notes;
pub use reader::TextSource;

use compression::{FailingText, text_of};
use notes::shown;
use pagewalk_trace::{Source, SourceError};
use std::io::{BufReader, Cursor, Read};

/// A readable format.
pub trait Importer: Sync {
    /// Its name for `--format`.
    fn name(&self) -> &'static str;

    /// Who writes such files, as a phrase that continues "NAME is".
    fn about(&self) -> &'static str;

    /// Whether a line, without its end, has this format's form. Lines that could be any text do not count.
    fn recognises(&self, line: &[u8]) -> bool;

    /// A source for a text.
    fn open(&self, text: Text) -> Result<Import, SourceError>;
}

/// All formats, in the order of messages.
pub static IMPORTERS: &[&dyn Importer] = &[&lackey::Format, &din::Format];

/// A file as a stream.
pub struct Import {
    /// The stream.
    pub source: Box<dyn Source + Send>,
    /// Further observations, complete at the end of the stream.
    pub notes: Notes,
}

/// Why a file cannot be read as any format.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// No known format in its first lines.
    #[error(
        "line {line} is `{text}`, and no line of the file's first {} KiB is of a format that is read here: {}; \
         --format NAME says which it is to be",
        HEAD_BYTES / 1024, formats(IMPORTERS)
    )]
    Unrecognised {
        /// The first line with text.
        line: usize,
        /// What it is.
        text: String,
    },
    /// Its first lines are of several formats.
    #[error("the file has lines of several formats: {0}; --format NAME says which it is to be")]
    Ambiguous(String),
    /// It cannot be unpacked, or is damaged.
    #[error(transparent)]
    Source(#[from] SourceError),
}

/// Bytes of a text to examine for its format.
const HEAD_BYTES: u64 = 64 << 10;

/// Opens `file`, possibly gzipped, in the given format or the one recognised from its first lines; also returns that
/// format. For other archives, the error names the command that unpacks them.
pub fn open(
    file: Text,
    format: Option<&'static dyn Importer>,
) -> Result<(&'static dyn Importer, Import), ImportError> {
    let text = text_of(file)?;
    let (importer, text) = match format {
        Some(importer) => (importer, text),
        None => recognise(text)?,
    };
    Ok((importer, importer.open(text)?))
}

/// The importer of this name.
pub fn importer(name: &str) -> Option<&'static dyn Importer> {
    IMPORTERS.iter().copied().find(|importer| importer.name() == name)
}

/// The format of a text's first lines, and the whole text.
fn recognise(mut text: Text) -> Result<(&'static dyn Importer, Text), ImportError> {
    let mut head = Vec::new();
    let outcome = (&mut text).take(HEAD_BYTES).read_to_end(&mut head);
    let lines = || head.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii_end);
    let of = |importer: &&&dyn Importer| lines().any(|line| importer.recognises(line));
    let found: Vec<&'static dyn Importer> = IMPORTERS.iter().filter(of).copied().collect();
    match (&found[..], outcome) {
        ([], Err(error)) => Err(SourceError::from(error).into()),
        ([], Ok(_)) => {
            let (line, text) =
                lines().enumerate().find(|(_, line)| !line.is_empty()).unwrap_or((0, &b""[..]));
            Err(ImportError::Unrecognised { line: line + 1, text: shown(text) })
        }
        (&[importer], outcome) => {
            // What stopped the reading stops it again at the same place.
            let rest: Text = match outcome {
                Ok(_) => text,
                Err(error) => Box::new(BufReader::new(FailingText(Some(error)))),
            };
            Ok((importer, Box::new(Cursor::new(head).chain(rest))))
        }
        (several, _) => Err(ImportError::Ambiguous(formats(several))),
    }
}

/// The formats as text.
fn formats(of: &[&dyn Importer]) -> String {
    let told = of.iter().map(|importer| format!("{} ({})", importer.name(), importer.about()));
    told.collect::<Vec<_>>().join(", ")
}
