//! What a study tells its caller while it runs, and how the caller ends it.

use std::fs::File;
use std::io::Read;

/// Receives progress.
pub trait Progress: Sync {
    /// This many more bytes of traces were read.
    fn bytes(&self, bytes: u64);

    /// Whether the caller wants the study to end: reading a trace then fails.
    fn is_stopped(&self) -> bool {
        false
    }
}

/// A file that reports how much of it was read.
pub(crate) struct CountingFile<'a> {
    pub file: File,
    pub progress: &'a dyn Progress,
}

impl Read for CountingFile<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.progress.is_stopped() {
            return Err(std::io::Error::other("stopped"));
        }
        let read = self.file.read(buffer)?;
        self.progress.bytes(read as u64);
        Ok(read)
    }
}
