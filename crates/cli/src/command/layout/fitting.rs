//! A plan beside the program that is to run so, and this host's files.

use crate::error::{CliError, Code};
use pagewalk_capture::{CaptureError, check_program};
use pagewalk_layout::Plan;
use pagewalk_layout::files::{self, Object};
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

/// A plan that fits.
pub struct Fitting {
    pub plan: Plan,
    /// Its objects as they are on this host.
    pub objects: Vec<Object>,
}

impl Fitting {
    /// Reads the plan at `path` and compares it with `program` and the files that it names. `otherwise` is what the
    /// user can do beside planning again.
    pub fn new(path: &Path, program: &OsStr, otherwise: &str) -> Result<Fitting, CliError> {
        let does_not_fit = |error: &dyn std::fmt::Display| does_not_fit(error, otherwise);
        let plan = Plan::read(path).map_err(|error| CliError::new(Code::BadInput, error))?;
        let program = check_program(program).map_err(|error| match error {
            CaptureError::Privileged { path } => does_not_fit(&format!(
                "{} gains privileges when it starts, which a program that is traced does not",
                path.display()
            )),
            CaptureError::OtherArchitecture { path, found } => {
                does_not_fit(&format!("{} is a {found} program; plans are for x86-64", path.display()))
            }
            error => CliError::new(Code::Usage, error),
        })?;
        let is_planned = fs::canonicalize(&plan.program.path)
            .is_ok_and(|planned| fs::canonicalize(&program).is_ok_and(|program| program == planned));
        if is_planned && !files::is_planned_build(&plan, &program) {
            return Err(does_not_fit(&format!(
                "{} is another build than the plan's: its build-id is not {}",
                program.display(),
                plan.program.build_id.as_deref().unwrap_or_default()
            )));
        }
        let objects = files::objects(&plan).map_err(|error| does_not_fit(&error))?;
        Ok(Fitting { plan, objects })
    }
}

/// The plan is for something else.
pub fn does_not_fit(error: &dyn std::fmt::Display, otherwise: &str) -> CliError {
    CliError::new(Code::NotInEffect, error).or(format!("make a new plan, or {otherwise}"))
}
