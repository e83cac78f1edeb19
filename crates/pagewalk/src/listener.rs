//! Callbacks of the library to its caller: messages, progress, and signals to relay.

use crate::error::Error;
use std::any::Any;
use std::fmt::Display;
use std::io::Read;
use std::sync::Arc;

/// Receives messages and progress. Every method has a default that does nothing.
pub trait Listener: Sync {
    /// Something the user must know, such as a gap in a result.
    fn warn(&self, message: &dyn Display) {
        let _ = message;
    }

    /// Something good to know.
    fn note(&self, message: &dyn Display) {
        let _ = message;
    }

    /// Lines to show unchanged, such as a running program's table.
    fn text(&self, lines: &str) {
        let _ = lines;
    }

    /// Starts progress over `total` bytes.
    fn bytes(&self, total: u64, what: &str) -> Arc<dyn Bar> {
        let _ = (total, what);
        Arc::new(SilentListener)
    }

    /// Starts progress in per cent.
    fn shares(&self, what: &str) -> Arc<dyn Bar> {
        let _ = what;
        Arc::new(SilentListener)
    }

    /// A program runs: until the answer is dropped, pass signals of this process on through `to`.
    ///
    /// # Errors
    /// If signals cannot be watched.
    fn relay(&self, to: SignalRelay) -> Result<RelayGuard, Error> {
        let _ = to;
        Ok(Box::new(()))
    }
}

/// Progress of one piece of work, until it is dropped.
pub trait Bar: Send + Sync {
    /// This many more bytes are done.
    fn advance(&self, bytes: u64) {
        let _ = bytes;
    }

    /// This many per cent are done, and `what` comes next.
    fn reach(&self, hundredths: u64, what: &str) {
        let _ = (hundredths, what);
    }

    /// Whether the caller wants the work to end: reading then fails, and what was made of it so far is incomplete.
    fn is_stopped(&self) -> bool {
        false
    }
}

/// How to pass signals to a running program.
pub struct SignalRelay {
    /// Sends the program a signal.
    pub signal: Box<dyn Fn(i32) + Send>,
    /// Called instead for terminal signals (SIGINT, SIGQUIT, SIGHUP), which have already reached the program.
    pub of_terminal: Box<dyn Fn(i32) + Send>,
}

/// Relays signals until it is dropped.
pub type RelayGuard = Box<dyn Any>;

/// Ignores everything.
pub struct SilentListener;

impl Listener for SilentListener {}

impl Bar for SilentListener {}

/// A reader that advances a bar.
pub struct CountingReader<R> {
    inner: R,
    bar: Arc<dyn Bar>,
}

impl<R> CountingReader<R> {
    /// Counts the bytes of `inner` on `bar`.
    pub fn new(inner: R, bar: Arc<dyn Bar>) -> CountingReader<R> {
        CountingReader { inner, bar }
    }
}

impl<R: Read> Read for CountingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.bar.is_stopped() {
            return Err(std::io::Error::other("stopped"));
        }
        let read = self.inner.read(buffer)?;
        self.bar.advance(read as u64);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    struct StopBar(AtomicBool);

    impl Bar for StopBar {
        fn is_stopped(&self) -> bool {
            self.0.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn reading_fails_once_the_caller_wants_the_work_to_end() {
        let bar = Arc::new(StopBar(AtomicBool::new(false)));
        let mut reader = CountingReader::new(&b"abcd"[..], Arc::clone(&bar) as Arc<dyn Bar>);
        let mut two = [0; 2];
        assert_eq!(reader.read(&mut two).unwrap(), 2);
        bar.0.store(true, Ordering::Relaxed);
        assert_eq!(reader.read(&mut two).unwrap_err().to_string(), "stopped");
    }
}
