//! Errors for the user: whose fault, what went wrong, what to do next.

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
    /// A plan had no effect.
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
    /// Creates an error.
    pub fn new(fault: Fault, message: impl fmt::Display) -> Error {
        Error { fault, message: message.to_string(), next: None }
    }

    /// Whether the program could still run without the plan: the plan or the host is at fault.
    pub fn can_run_without(&self) -> bool {
        self.fault != Fault::Usage && self.fault != Fault::Failed
    }

    /// What went wrong, without the advice.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Adds advice on what to do next.
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
