//! Checks of programs that are to run under a plan of layout or of pages.

use crate::error::{Error, Fault};
use pagewalk_capture::{CaptureError, check_program};
use pagewalk_live::layout::HostError;
use pagewalk_live::tracing::LaunchError;
use std::ffi::OsStr;
use std::fmt::Display;
use std::path::PathBuf;

/// Advice where the program can also run without the plan.
pub const OR_DEFAULT: &str = "start it without: --or-default";

/// The error for a plan that does not fit. `otherwise` is what the user can do besides planning again.
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

/// The error if this host does not permit tracing.
pub fn cannot_trace(error: LaunchError) -> Error {
    let error = HostError::NoPtrace(error);
    Error::new(Fault::HostCannot, &error).or(format!("to enable: {}; or {OR_DEFAULT}", error.enable()))
}
