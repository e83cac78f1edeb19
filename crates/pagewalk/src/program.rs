//! Checks of programs that are to run under a plan of layout or of pages.

use crate::error::{Error, Fault};
use pagewalk_capture::{CaptureError, check_program};
use pagewalk_live::layout::HostError;
use pagewalk_live::tracing::LaunchError;
use pagewalk_plan::Program;
use std::ffi::OsStr;
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// Advice where the program can also run without the plan.
pub const OR_DEFAULT: &str = "start it without the plan: `apply --or-default`";

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

/// Refuses `path` if it is another build of the planned program. Plans without a build-id fit every build.
pub fn check_build(planned: &Program, path: &Path, otherwise: &str) -> Result<(), Error> {
    let Some(wanted) = &planned.build_id else { return Ok(()) };
    let found = pagewalk_symbols::build_id(&path.to_string_lossy());
    if found.as_ref().is_some_and(|found| found.eq_ignore_ascii_case(wanted)) {
        return Ok(());
    }
    let (path, found) = (path.display(), found.as_deref().unwrap_or("none"));
    let message = format!("{path} is another build than the plan's: build-id {found}, planned for {wanted}");
    Err(does_not_fit(&message, otherwise))
}

/// The error if this host does not permit tracing.
pub fn cannot_trace(error: LaunchError) -> Error {
    let error = HostError::NoPtrace(error);
    Error::new(Fault::HostCannot, &error).or(format!("to enable: {}; or {OR_DEFAULT}", error.enable()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_build_is_compared_where_the_plan_has_one() {
        let own = std::env::current_exe().unwrap();
        let built = pagewalk_symbols::build_id(&own.to_string_lossy()).expect("linkers write build-ids here");
        let refusal = |build_id: Option<String>, path: &Path| {
            let planned = Program { path: "/p".to_owned(), build_id, arguments: Vec::new() };
            check_build(&planned, path, OR_DEFAULT).err().map(|error| error.to_string())
        };
        assert_eq!(refusal(None, Path::new("/none")), None);
        assert_eq!(refusal(Some(built.to_uppercase()), &own), None);
        let other = refusal(Some("beed".to_owned()), &own).unwrap();
        assert!(other.contains(&format!("build-id {built}, planned for beed")), "{other}");
        assert!(refusal(Some(built), Path::new("/none")).unwrap().contains("build-id none"));
    }
}
