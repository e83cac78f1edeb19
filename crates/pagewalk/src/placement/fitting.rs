//! Checks a layout plan against its program and this host's files.

use crate::error::{Error, Fault};
use crate::program::{check_command, does_not_fit};
use pagewalk_layout::Plan;
use pagewalk_layout::files::{self, Object};
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

/// A plan that fits this host and its program.
pub struct FittedLayout {
    /// The plan.
    pub plan: Plan,
    /// Its objects as they are on this host.
    pub objects: Vec<Object>,
}

impl FittedLayout {
    /// Reads the plan at `path` and compares it with `program` and the files that it names. `otherwise` is what the
    /// user can do besides planning again.
    pub fn new(path: &Path, program: &OsStr, otherwise: &str) -> Result<FittedLayout, Error> {
        let plan = Plan::read(path).map_err(|error| Error::new(Fault::BadInput, error))?;
        let program = check_command(program, otherwise)?;
        let is_planned = fs::canonicalize(&plan.program.path)
            .is_ok_and(|planned| fs::canonicalize(&program).is_ok_and(|program| program == planned));
        if is_planned && !files::is_planned_build(&plan, &program) {
            let message = format!(
                "{} is another build than the plan's: its build-id is not {}",
                program.display(),
                plan.program.build_id.as_deref().unwrap_or_default()
            );
            return Err(does_not_fit(&message, otherwise));
        }
        let objects = files::objects(&plan).map_err(|error| does_not_fit(&error, otherwise))?;
        Ok(FittedLayout { plan, objects })
    }
}
