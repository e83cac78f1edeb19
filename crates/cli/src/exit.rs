//! Exit codes: one for each fault, as `docs/reference/commands.md` lists them, or the program's own.

use crate::output::say;
use pagewalk::live::tracing::ProcessEnd;
use pagewalk::{Error, Fault};
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// An exit code that can be read again, as the standard library's cannot: Python ends its process with it.
#[derive(Clone, Copy)]
pub struct ExitCode(u8);

impl ExitCode {
    /// The work is done.
    pub const SUCCESS: ExitCode = ExitCode(0);

    /// Its number.
    pub fn number(self) -> u8 {
        self.0
    }
}

impl From<u8> for ExitCode {
    fn from(number: u8) -> ExitCode {
        ExitCode(number)
    }
}

/// The exit code of a fault.
pub fn by(fault: Fault) -> ExitCode {
    ExitCode::from(match fault {
        Fault::Failed => 1,
        Fault::Usage => 2,
        Fault::BadInput => 3,
        Fault::HostCannot => 4,
        Fault::NotInEffect => 5,
    })
}

/// The program's own exit code: its status, or 128 plus the signal's number.
pub fn as_ended(end: ProcessEnd) -> ExitCode {
    ExitCode::from(match end {
        ProcessEnd::Exit(status) => status as u8,
        ProcessEnd::Signal(signal) => 128 + signal as u8,
    })
}

/// The same for a child of this process.
pub fn as_child(status: ExitStatus) -> ExitCode {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    ExitCode::from(code as u8)
}

/// Replaces this process with the program.
pub fn as_program(command: &[OsString], quiet: bool, error: &Error) -> Result<ExitCode, Error> {
    if !quiet {
        say(format!("{error}\n  it runs without the plan"));
    }
    let failed = pagewalk::units::inheritance::execute(command);
    Err(Error::new(Fault::Failed, format!("cannot start {:?}: {failed}", command[0])))
}
