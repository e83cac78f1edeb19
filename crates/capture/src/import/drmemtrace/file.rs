//! The records of one file, read piece by piece.

use super::super::Input;
use super::super::container::packing_error;
use super::record::{RECORD_BYTES, Record, kind, marker};
use super::{NEWEST_VERSION, OLDEST_VERSION};
use pagewalk_trace::SourceError;
use std::io::{ErrorKind, Read};

/// Records in memory: few, as there may be a file for each of many threads.
const PIECE_RECORDS: usize = 4096;
/// Most records before the first timestamp; real files have about ten.
const MAX_HEADER_RECORDS: usize = 64;

/// A file being read.
pub(super) struct TraceFile {
    input: Input,
    /// Its name in errors: empty if it is the only one.
    prefix: String,
    piece: Vec<u8>,
    /// The next record's place in `piece`.
    next: usize,
    /// Whole records end here.
    end: usize,
    /// Records before `piece`.
    before: u64,
    /// What stops the reading after `piece`.
    error: Option<SourceError>,
    is_at_end: bool,
    has_footer: bool,
}

/// What a file says about itself before its first timestamp.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FileHeader {
    /// Version of the format.
    pub version: u64,
    /// Bits of `file_type`.
    pub file_type: u64,
    /// The process, if it is named.
    pub process: Option<u64>,
    /// The thread, if it is named.
    pub thread: Option<u64>,
    /// The first timestamp, in microseconds.
    pub time: u64,
}

impl TraceFile {
    /// Opens a file and reads its header.
    pub fn open(input: Input, is_single: bool) -> Result<(TraceFile, FileHeader), SourceError> {
        let prefix = if is_single { String::new() } else { format!("{}: ", input.name) };
        let piece = vec![0; PIECE_RECORDS * RECORD_BYTES];
        let mut file = TraceFile {
            input,
            prefix,
            piece,
            next: 0,
            end: 0,
            before: 0,
            error: None,
            is_at_end: false,
            has_footer: false,
        };
        let header = file.header()?;
        Ok((file, header))
    }

    /// Reads up to the first record that belongs to no header, or the first timestamp, which stay unread.
    fn header(&mut self) -> Result<FileHeader, SourceError> {
        let first = self.peek()?.ok_or_else(|| self.truncated("is empty"))?;
        if first.kind != kind::HEADER {
            let what = format!("is of type {}, not the header (25) of a final offline trace", first.kind);
            return Err(self.malformed(&what));
        }
        if first.value >> 32 != 0 {
            return Err(self.malformed("is of a 32-bit program's trace; those of 64-bit programs are read"));
        }
        let mut header = FileHeader { version: first.value, ..FileHeader::default() };
        self.check_version(first.value)?;
        self.next += RECORD_BYTES;
        for _ in 0..MAX_HEADER_RECORDS {
            let Some(record) = self.peek()? else { break };
            match (record.kind, record.size) {
                (kind::PID, _) => header.process = Some(record.value),
                (kind::THREAD, _) => header.thread = Some(record.value),
                (kind::MARKER, marker::FILETYPE) => header.file_type = record.value,
                (kind::MARKER, marker::VERSION) => self.check_version(record.value)?,
                (kind::MARKER, marker::TIMESTAMP) => {
                    header.time = record.value;
                    break;
                }
                (kind::MARKER, size) if size > marker::TIMESTAMP && size < marker::RESERVED_END => {}
                _ => break,
            }
            self.next += RECORD_BYTES;
        }
        Ok(header)
    }

    fn check_version(&self, version: u64) -> Result<(), SourceError> {
        if (OLDEST_VERSION..=NEWEST_VERSION).contains(&version) {
            return Ok(());
        }
        let what = format!(
            "says that the file is of version {version}; versions {OLDEST_VERSION} to {NEWEST_VERSION} are read"
        );
        Err(self.malformed(&what))
    }

    /// The next record, which stays unread.
    pub fn peek(&mut self) -> Result<Option<Record>, SourceError> {
        Ok(self.records()?.first_chunk().map(Record::from_bytes))
    }

    /// Bytes of the next whole records; empty at the end.
    #[inline]
    pub fn records(&mut self) -> Result<&[u8], SourceError> {
        if self.next == self.end {
            self.fill()?;
        }
        Ok(&self.piece[self.next..self.end])
    }

    /// Marks the first `bytes` of [`TraceFile::records`] as read.
    pub fn consume(&mut self, bytes: usize) {
        self.next += bytes;
    }

    /// Notes the footer, which ends the file.
    pub fn read_footer(&mut self) -> Result<(), SourceError> {
        self.has_footer = true;
        self.next += RECORD_BYTES;
        match self.records()? {
            [] => Ok(()),
            _ => Err(self.malformed("follows the footer, which ends a file")),
        }
    }

    fn fill(&mut self) -> Result<(), SourceError> {
        self.before += (self.end / RECORD_BYTES) as u64;
        (self.next, self.end) = (0, 0);
        if let Some(error) = self.error.take() {
            self.is_at_end = true;
            return Err(error);
        }
        let mut filled = 0;
        while filled < self.piece.len() && !self.is_at_end {
            match self.input.bytes.read(&mut self.piece[filled..]) {
                Ok(0) => self.is_at_end = true,
                Ok(bytes) => filled += bytes,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    let number = self.before + (filled / RECORD_BYTES) as u64 + 1;
                    let place = format!("{}record {number}", self.prefix);
                    self.error = Some(packing_error(error, &place));
                    break;
                }
            }
        }
        self.end = filled - filled % RECORD_BYTES;
        if self.error.is_none() && self.end < filled {
            let number = self.before + (filled / RECORD_BYTES) as u64 + 1;
            let what = format!("{}the file ends in the middle of record {number}", self.prefix);
            self.error = Some(SourceError::Truncated(what));
        } else if self.error.is_none() && self.is_at_end && self.end == 0 && !self.has_footer {
            return Err(self.truncated("ends without its footer"));
        }
        if self.end == 0 && self.error.is_some() {
            return self.fill();
        }
        Ok(())
    }

    /// Number of the next record, from 1.
    pub fn number(&self) -> u64 {
        self.before + (self.next / RECORD_BYTES) as u64 + 1
    }

    /// An error at the next record; `what` continues "record N".
    pub fn malformed(&self, what: &str) -> SourceError {
        SourceError::Malformed(format!("{}record {} {what}", self.prefix, self.number()))
    }

    fn truncated(&self, what: &str) -> SourceError {
        SourceError::Truncated(format!(
            "{}the file {what} (after {} records)",
            self.prefix,
            self.number() - 1
        ))
    }
}
