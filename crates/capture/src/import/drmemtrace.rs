//! Final offline traces of DynamoRIO's drmemtrace (`drrun -t drmemtrace -offline`, after `raw2trace`).
//!
//! A file is a sequence of records of 12 bytes (`drmemtrace/record.rs`), of one thread or of several that take turns;
//! a process has a file for each thread, in a folder `trace` or `….tracedir`. Several files become one stream in the
//! order of the timestamps in them, as DynamoRIO's own tools order threads.
//!
//! | in the file | in the stream |
//! |---|---|
//! | instructions, encodings | blocks with code; jumps, calls, returns and system calls end them |
//! | reads, writes | loads, stores |
//! | further iterations of string instructions (no fetch) | their references belong to the instruction |
//! | threads | threads; their start, end and switches |
//! | system calls | events, with the result 0, or the error where the file has it |
//! | the program's own markers (from 100) | markers |
//!
//! All else is counted and left out. There are no mappings. Addresses above 57 bits are the kernel's, and left out too.

mod blocks;
mod file;
pub(crate) mod record;
mod source;
mod tallies;

use super::{Import, Importer, Input, Opener};
use file::{FileHeader, TraceFile};
use pagewalk_trace::SourceError;
use record::{RECORD_BYTES, Record, kind};
use source::DrmemtraceSource;

/// The oldest version that is read.
const OLDEST_VERSION: u64 = 1;
/// The newest version that is read. From 2 on, versions differ in which markers and kinds of jumps there are.
const NEWEST_VERSION: u64 = 7;
/// A larger number is no version.
const MAX_VERSION: u64 = 999;

/// The format, for the registry.
pub(super) const FORMAT: Importer = Importer {
    name: "drmemtrace",
    about: "what DynamoRIO's `drmemtrace -offline` writes after `raw2trace`",
    recognises: |head| {
        let (records, _) = head.as_chunks::<RECORD_BYTES>();
        let [header, rest @ ..] = records else { return false };
        let header = Record::from_bytes(header);
        // The upper half is a record of its own in a 32-bit program's trace.
        let version = header.value & u64::from(u32::MAX);
        let second = rest.first().map(|record| Record::from_bytes(record).kind);
        header.kind == kind::HEADER
            && header.size == 0
            && (1..=MAX_VERSION).contains(&version)
            && (header.value != version || second.is_none_or(|kind| STARTS.contains(&kind)))
    },
    open: Opener::Several(open_all),
};

/// What may follow the header.
const STARTS: [u16; 4] = [kind::MARKER, kind::THREAD, kind::PID, kind::FOOTER];

fn open_all(files: Vec<Input>) -> Result<Import, SourceError> {
    let is_single = files.len() == 1;
    let names: Vec<String> = files.iter().map(|file| file.name.clone()).collect();
    let opened = files.into_iter().map(|file| TraceFile::open(file, is_single));
    let opened = opened.collect::<Result<Vec<_>, _>>()?;
    check_process(&names, opened.iter().map(|(_, header)| header))?;
    let source = DrmemtraceSource::new(opened);
    Ok(Import { notes: source.notes(), source: Box::new(source) })
}

/// Refuses files of several processes: a stream is one process's.
fn check_process<'a>(
    names: &[String],
    headers: impl Iterator<Item = &'a FileHeader>,
) -> Result<(), SourceError> {
    let mut processes = names.iter().zip(headers).filter_map(|(name, header)| Some((name, header.process?)));
    let Some((first, process)) = processes.next() else { return Ok(()) };
    match processes.find(|(_, other)| *other != process) {
        Some((name, other)) => Err(SourceError::Malformed(format!(
            "{first} is of process {process} and {name} of process {other}: import the files of one process at a time"
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
