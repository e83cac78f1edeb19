//! Programs that are to run under a plan, of places or of pages: whether they can, and starting them without it.

use crate::error::{CliError, Code};
use crate::output::say;
use pagewalk_capture::{CaptureError, check_program};
use pagewalk_live::layout::HostError;
use pagewalk_live::tracing::LaunchError;
use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// What the user can do where the program need not run under the plan.
pub const OR_DEFAULT: &str = "start it without: --or-default";

/// The plan is for something else. `otherwise` is what the user can do beside planning again.
pub fn does_not_fit(error: &dyn Display, otherwise: &str) -> CliError {
    CliError::new(Code::NotInEffect, error).or(format!("make a new plan, or {otherwise}"))
}

/// The program's file, if it can be started under a plan.
pub fn check_command(program: &OsStr, otherwise: &str) -> Result<PathBuf, CliError> {
    check_program(program).map_err(|error| match error {
        CaptureError::Privileged { path } => {
            let path = path.display();
            let message =
                format!("{path} gains privileges when it starts, which a program that is traced does not");
            does_not_fit(&message, otherwise)
        }
        CaptureError::OtherArchitecture { path, found } => {
            let message = format!("{} is a {found} program; plans are for x86-64", path.display());
            does_not_fit(&message, otherwise)
        }
        error => CliError::new(Code::Usage, error),
    })
}

/// This host does not let us trace.
pub fn cannot_trace(error: LaunchError) -> CliError {
    let error = HostError::NoPtrace(error);
    CliError::new(Code::HostCannot, &error).or(format!("to enable: {}; or {OR_DEFAULT}", error.enable()))
}

/// Whether a failure is the plan's or the host's, so that the program can run without the plan all the same.
pub fn can_run_without(error: &CliError) -> bool {
    error.code != Code::Usage && error.code != Code::Failed
}

/// The program in our place, as if we had never been there.
pub fn run_without(command: &[OsString], quiet: bool, error: &CliError) -> Result<ExitCode, CliError> {
    if !quiet {
        say(format!("{error}\n  it runs without the plan"));
    }
    let failed = Command::new(&command[0]).args(&command[1..]).exec();
    Err(CliError::new(Code::Failed, format!("cannot start {:?}: {failed}", command[0])))
}
