//! What the user is told when a command cannot go on, and the exit code that goes with it.

use std::fmt;

/// Exit codes, as `docs/user-guide.md` lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The work failed.
    Failed = 1,
    /// The command line is wrong.
    Usage = 2,
    /// An input file is wrong.
    BadInput = 3,
    /// This host cannot do it.
    HostCannot = 4,
    /// A plan did not take effect.
    NotInEffect = 5,
}

/// A message for the user: what went wrong, what to do next, and the exit code.
#[derive(Debug)]
pub struct CliError {
    /// The exit code.
    pub code: Code,
    message: String,
    next: Option<String>,
}

impl CliError {
    /// An error with this code and message.
    pub fn new(code: Code, message: impl fmt::Display) -> CliError {
        CliError { code, message: message.to_string(), next: None }
    }

    /// The same, with what to do next.
    pub fn or(self, next: impl fmt::Display) -> CliError {
        CliError { next: Some(next.to_string()), ..self }
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)?;
        self.next.iter().try_for_each(|next| write!(f, "\n  {next}"))
    }
}
