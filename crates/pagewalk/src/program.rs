//! Programs that are to run under a plan, of places or of pages: whether they can.

use crate::error::{Error, Fault};
use pagewalk_capture::{CaptureError, check_program};
use pagewalk_live::layout::HostError;
use pagewalk_live::tracing::LaunchError;
use std::ffi::OsStr;
use std::fmt::Display;
use std::path::PathBuf;

/// What the user can do where the program need not run under the plan.
pub const OR_DEFAULT: &str = "start it without: --or-default";

/// The plan is for something else. `otherwise` is what the user can do beside planning again.
pub fn does_not_fit(error: &dyn Display, otherwise: &str) -> Error {
    Error::new(Fault::NotInEffect, error).or(format!("make a new plan, or {otherwise}"))
}

/// The program's file, if it can be started under a plan.
pub fn check_command(program: &OsStr, otherwise: &str) -> Result<PathBuf, Error> {
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
        error => Error::new(Fault::Usage, error),
    })
}

/// This host does not let us trace.
pub fn cannot_trace(error: LaunchError) -> Error {
    let error = HostError::NoPtrace(error);
    Error::new(Fault::HostCannot, &error).or(format!("to enable: {}; or {OR_DEFAULT}", error.enable()))
}
