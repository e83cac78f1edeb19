//! What callers hear while the library works: messages, progress; and what they hand on, signals.

use crate::error::Error;
use std::any::Any;
use std::fmt::Display;
use std::io::Read;
use std::sync::Arc;

/// Who hears of the work while it is done. All of it can be left out.
pub trait Listener: Sync {
    /// Something that the user has to know, such as what is missing in a result.
    fn warn(&self, message: &dyn Display) {
        let _ = message;
    }

    /// Something that is good to know.
    fn note(&self, message: &dyn Display) {
        let _ = message;
    }

    /// Lines to show as they are, such as a table of a program that runs.
    fn text(&self, lines: &str) {
        let _ = lines;
    }

    /// Work over so many bytes begins.
    fn bytes(&self, total: u64, what: &str) -> Arc<dyn Bar> {
        let _ = (total, what);
        Arc::new(SilentListener)
    }

    /// Work begins that is told in hundredths.
    fn shares(&self, what: &str) -> Arc<dyn Bar> {
        let _ = what;
        Arc::new(SilentListener)
    }

    /// A program runs: signals that come to this process until the answer is dropped are to be handed on by `to`.
    ///
    /// # Errors
    /// If signals cannot be watched.
    fn relay(&self, to: SignalRelay) -> Result<Watch, Error> {
        let _ = to;
        Ok(Box::new(()))
    }
}

/// Progress of one piece of work, which ends when this is dropped.
pub trait Bar: Send + Sync {
    /// So many bytes more are done.
    fn advance(&self, bytes: u64) {
        let _ = bytes;
    }

    /// So many hundredths are done, and this comes now.
    fn reach(&self, hundredths: u64, what: &str) {
        let _ = (hundredths, what);
    }
}

/// How signals reach a program that runs.
pub struct SignalRelay {
    /// Sends the program a signal.
    pub signal: Box<dyn Fn(i32) + Send>,
    /// Called for those of the terminal, which has sent them to the program too: SIGINT, SIGQUIT, SIGHUP.
    pub of_terminal: Box<dyn Fn(i32) + Send>,
}

/// Signals are handed on until this is dropped.
pub type Watch = Box<dyn Any>;

/// Hears nothing.
pub struct SilentListener;

impl Listener for SilentListener {}

impl Bar for SilentListener {}

/// A reader that moves a bar.
pub struct CountingReader<R> {
    inner: R,
    bar: Arc<dyn Bar>,
}

impl<R> CountingReader<R> {
    /// `inner` with its bytes counted on `bar`.
    pub fn new(inner: R, bar: Arc<dyn Bar>) -> CountingReader<R> {
        CountingReader { inner, bar }
    }
}

impl<R: Read> Read for CountingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.bar.advance(read as u64);
        Ok(read)
    }
}
