//! Checks a layout plan against its program and this host's files.

use super::rebase::read;
use crate::error::Error;
use crate::program::{check_build, check_command, does_not_fit};
use pagewalk_layout::files::{self, Object};
use pagewalk_plan::{Layout, Program};
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

/// A plan that fits this host and its program.
pub struct FittedLayout {
    /// The program that it was made for.
    pub program: Program,
    /// Where its libraries are to lie.
    pub layout: Layout,
    /// Its objects as they are on this host.
    pub objects: Vec<Object>,
}

impl FittedLayout {
    /// Reads the plan at `path` and compares it with `program` and the files that it names. `otherwise` is what the
    /// user can do besides planning again.
    pub fn new(path: &Path, program: &OsStr, otherwise: &str) -> Result<FittedLayout, Error> {
        let (planned, layout) = read(path)?;
        let program = check_command(program, otherwise)?;
        let is_planned = fs::canonicalize(&planned.path)
            .is_ok_and(|planned| fs::canonicalize(&program).is_ok_and(|program| program == planned));
        if is_planned {
            check_build(&planned, &program, otherwise)?;
        }
        let objects = files::objects(&layout).map_err(|error| does_not_fit(&error, otherwise))?;
        Ok(FittedLayout { program: planned, layout, objects })
    }
}
