//! Other tools' files: one file a format, and its line in [`IMPORTERS`].
//!
//! A format of lines is a `Grammar` (`import/reader.rs`); what they share (gzip, line ends, batches, errors with the
//! line's number, notes of what was passed over) is here once. Nothing in a file is trusted.

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

/// A format that can be read.
pub trait Importer: Sync {
    /// What `--format` calls it.
    fn name(&self) -> &'static str;

    /// Who writes such files, in a phrase that goes on after "NAME is".
    fn about(&self) -> &'static str;

    /// Whether a line, without its end, has this format's form. Lines that might be any text have not.
    fn recognises(&self, line: &[u8]) -> bool;

    /// A source of the stream in a text.
    fn open(&self, text: Text) -> Result<Import, SourceError>;
}

/// All formats. Their order is that of messages.
pub static IMPORTERS: &[&dyn Importer] = &[&lackey::Format, &din::Format];

/// A file as a stream.
pub struct Import {
    /// The stream.
    pub source: Box<dyn Source + Send>,
    /// What the file has besides: whole at the end of the stream.
    pub notes: Notes,
}

/// Why a file cannot be read as any format.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// Nothing in its first lines is of a format that is known.
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
    /// It cannot be unpacked, or its format says that it is damaged.
    #[error(transparent)]
    Source(#[from] SourceError),
}

/// How much of a text is looked at to tell its format.
const HEAD_BYTES: u64 = 64 << 10;

/// Opens `file`, which gzip may have packed, in the given format, or the one that its first lines have; also says which
/// that is. Other archives are named with the command that unpacks them.
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

/// The format that the first lines of a text have, and the whole text.
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
            // What stopped the reading stops it again, at its place.
            let rest: Text = match outcome {
                Ok(_) => text,
                Err(error) => Box::new(BufReader::new(FailingText(Some(error)))),
            };
            Ok((importer, Box::new(Cursor::new(head).chain(rest))))
        }
        (several, _) => Err(ImportError::Ambiguous(formats(several))),
    }
}

/// Formats in words.
fn formats(of: &[&dyn Importer]) -> String {
    let told = of.iter().map(|importer| format!("{} ({})", importer.name(), importer.about()));
    told.collect::<Vec<_>>().join(", ")
}
