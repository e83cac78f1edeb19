//! Reads samples that Linux perf took: `perf.data`, or the text of `perf script`.
//!
//! Samples are no stream: each is one event of many, with the address that it was about. PEBS (Intel), IBS (AMD) and
//! SPE (Arm) add what the translation of that address met, and how long it took; page faults have addresses too.
//! Nothing in a file is trusted.

mod data;
mod fields;
mod outcome;
mod text;

pub use outcome::Outcome;

use pagewalk_trace::SourceError;
use std::io::{self, BufReader, Read, Seek, SeekFrom};

/// What a file of samples holds, in the order of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SampleRecord {
    /// A thread has a name; if `is_exec`, its process is another program now, with none of its mappings.
    Command {
        /// The process.
        process: i32,
        /// The name.
        name: String,
        /// Whether a program began.
        is_exec: bool,
    },
    /// A process began as a copy of another.
    Fork {
        /// The new process.
        process: i32,
        /// Its parent.
        parent: i32,
    },
    /// Memory was mapped, in place of whatever was there. No record says that it is unmapped.
    Mapped(MappedRange),
    /// A sample.
    Sample(Sample),
}

/// Mapped memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedRange {
    /// The process; -1 for the kernel's.
    pub process: i32,
    /// First address.
    pub start: u64,
    /// The first address after it.
    pub end: u64,
    /// Its offset in the file.
    pub offset: u64,
    /// The file's path; `[heap]`, `[stack]` and the like; empty for plain anonymous memory.
    pub name: String,
}

impl MappedRange {
    /// Whether it is of a file.
    pub fn is_file(&self) -> bool {
        self.name.starts_with('/')
    }
}

/// One sampled event. What the file lacks is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// The process.
    pub process: i32,
    /// Nanoseconds of the host's clock.
    pub nanoseconds: Option<u64>,
    /// The event's number: its place in [`SampleNotes::events`].
    pub event: usize,
    /// The code's address.
    pub code: Option<u64>,
    /// Whether the code is the kernel's.
    pub in_kernel: bool,
    /// The code's function and file, as perf found them.
    pub function: Option<(String, String)>,
    /// The address of data.
    pub address: Option<u64>,
    /// The name of the mapping of `address`, as perf found it.
    pub mapping: Option<String>,
    /// Cycles that the access took.
    pub weight: Option<u64>,
    /// What the translation met.
    pub outcome: Outcome,
    /// Bytes of the page.
    pub page_bytes: Option<u64>,
    /// Events that the sample stands for.
    pub period: Option<u64>,
}

/// What was found about a file as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SampleNotes {
    /// `perf.data` or `perf script`.
    pub format: &'static str,
    /// Names of events.
    pub events: Vec<String>,
    /// What was left out or lost, as sentences.
    pub notes: Vec<String>,
}

/// Reads a file's records into `take`.
///
/// # Errors
/// If it is of neither format, damaged or cut off. All records before the damage have been taken.
pub fn read(
    mut file: impl Read + Seek,
    take: &mut dyn FnMut(SampleRecord),
) -> Result<SampleNotes, SourceError> {
    let mut head = [0; 8];
    let known = read_up_to(&mut file, &mut head)?;
    file.seek(SeekFrom::Start(0))?;
    if head[..known] == *data::SWAPPED_MARK {
        return Err(SourceError::Malformed(
            "the file was written on a big-endian machine, which is not read; use `perf script` there"
                .to_owned(),
        ));
    }
    match head[..known] == *data::MARK {
        true => data::read(BufReader::new(file), take),
        false => text::read(BufReader::new(file), take),
    }
}

fn read_up_to(file: &mut impl Read, into: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < into.len() {
        match file.read(&mut into[done..])? {
            0 => break,
            bytes => done += bytes,
        }
    }
    Ok(done)
}

/// The name of a mapping: perf's for plain anonymous memory is empty here.
fn mapping_name(name: &str) -> String {
    match name {
        "//anon" => String::new(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests;
