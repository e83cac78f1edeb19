//! Verdicts on stopped system calls.

use super::space::Lock;

/// What happens to a stopped system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The program makes it unchanged.
    Native,
    /// The program makes it; then there is work to do.
    NativeThen(AfterCall),
    /// It has been made; the result.
    Done(i64),
}

/// What is to be done when a call has been made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterCall {
    /// Take over the mapping of a file that it made.
    TakeOver {
        /// Its length.
        bytes: u64,
        /// Its rights.
        protection: u64,
        /// Whether it may have replaced what was taken over.
        fixed: bool,
        /// How it is locked.
        lock: Option<Lock>,
    },
    /// Take over the mapping of plain memory that it made in the place of what is there now.
    TakeOverPlain {
        /// Its length.
        bytes: u64,
        /// Its rights.
        protection: u64,
    },
    /// Give up what it replaced.
    Replaced {
        /// The length of what is there now.
        bytes: u64,
    },
    /// Choose the processor again.
    Pin,
    /// Keep the page of a lock present no longer.
    Release,
    /// Put `CLONE_UNTRACED` back where it was asked for.
    Hide,
}

/// An error number as a call's result.
pub const fn refused(error: i64) -> Verdict {
    Verdict::Done(-error)
}
