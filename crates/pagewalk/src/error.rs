//! What the caller is told when something cannot be done: whose fault it is, what went wrong, what to do next.

use std::fmt;

/// Whose fault it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The work failed.
    Failed,
    /// What was asked for is wrong.
    Usage,
    /// An input file is wrong.
    BadInput,
    /// This host cannot do it.
    HostCannot,
    /// A plan did not take effect.
    NotInEffect,
}

/// A message for people: what went wrong, and what to do next.
#[derive(Debug)]
pub struct Error {
    /// Whose fault it is.
    pub fault: Fault,
    message: String,
    next: Option<String>,
}

impl Error {
    /// An error with this fault and message.
    pub fn new(fault: Fault, message: impl fmt::Display) -> Error {
        Error { fault, message: message.to_string(), next: None }
    }

    /// Whether it is the plan's or the host's fault, so that the program can run without the plan all the same.
    pub fn can_run_without(&self) -> bool {
        self.fault != Fault::Usage && self.fault != Fault::Failed
    }

    /// What went wrong, without what to do next.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The same, with what to do next.
    pub fn or(self, next: impl fmt::Display) -> Error {
        Error { next: Some(next.to_string()), ..self }
    }
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)?;
        self.next.iter().try_for_each(|next| write!(f, "\n  {next}"))
    }
}
