//! Checks a plan against this host and its program.

use crate::error::{Error, Fault};
use crate::program::{OR_DEFAULT, check_build, does_not_fit};
use pagewalk_layout::files::{self, Object};
use pagewalk_live::pages::{EXCEPT_ADVISED_SINCE, Mode, is_since, kernel, mode};
use pagewalk_plan::Plan;
use std::fs;
use std::path::{Path, PathBuf};

/// A plan that fits this host and its program.
pub struct FittedPlan {
    pub plan: Plan,
    /// Its program, without symbolic links.
    pub program: PathBuf,
    /// The objects that its layout places, as they are on this host.
    pub objects: Vec<Object>,
    /// This host's mode.
    pub mode: Mode,
    /// What is different here from where it was made, and what this host cannot.
    pub notes: Vec<String>,
    /// Whether unplanned memory has to be kept on small pages, and can be.
    pub can_keep_small: bool,
}

impl FittedPlan {
    /// Reads the plan at `path`, and compares it with its program and this host.
    pub fn new(path: &Path) -> Result<FittedPlan, Error> {
        FittedPlan::of(Plan::read(path).map_err(|error| Error::of_file(path, error))?)
    }

    /// Compares a plan with its program and this host.
    pub fn of(plan: Plan) -> Result<FittedPlan, Error> {
        let program = program(&plan)?;
        let objects = plan.layout.as_ref().map_or_else(|| Ok(Vec::new()), files::objects);
        let objects = objects.map_err(|error| does_not_fit(&error, OR_DEFAULT))?;
        // Placing libraries needs no huge pages.
        let mode = mode().or(plan.ranges.is_empty().then_some(Mode::Never)).ok_or_else(|| {
            Error::new(Fault::HostCannot, "this kernel has no transparent huge pages")
                .or("to enable: a kernel with CONFIG_TRANSPARENT_HUGEPAGE")
        })?;
        let mut notes = differences(&plan, mode);
        if plan.ranges.is_empty() {
            return Ok(FittedPlan { plan, program, objects, mode, notes, can_keep_small: false });
        }
        let can_keep_small = mode == Mode::Always && is_since(&kernel(), EXCEPT_ADVISED_SINCE);
        if mode == Mode::Always && !can_keep_small {
            let (major, minor) = EXCEPT_ADVISED_SINCE;
            notes.push(format!(
                "huge pages are `always` here, and what is not planned gets them too: PR_THP_DISABLE_EXCEPT_ADVISED, \
                 which would keep it on small pages, is in Linux from {major}.{minor} on, and this is {}",
                kernel()
            ));
        }
        if mode == Mode::Never {
            notes.push(
                "huge pages are `never` here, so marks have no effect: pagewalk collapses ranges itself when they are \
                 resident (process_madvise, MADV_COLLAPSE), and nothing does when it is gone"
                    .to_owned(),
            );
        }
        Ok(FittedPlan { plan, program, objects, mode, notes, can_keep_small })
    }
}

fn program(plan: &Plan) -> Result<PathBuf, Error> {
    let path = &plan.program.path;
    let program = fs::canonicalize(path).map_err(|error| {
        does_not_fit(&format!("the plan's program {path} is not there: {error}"), OR_DEFAULT)
    })?;
    check_build(&plan.program, &program, OR_DEFAULT)?;
    Ok(program)
}

fn differences(plan: &Plan, mode: Mode) -> Vec<String> {
    let Some(host) = &plan.host else { return Vec::new() };
    let mut notes = Vec::new();
    if host.thp != mode.name() {
        notes.push(format!(
            "the forecast was made where huge pages were `{}`, and here they are `{}`",
            host.thp,
            mode.name()
        ));
    }
    let here = kernel();
    if host.kernel != here {
        notes.push(format!("the forecast was made under Linux {}, and this is {here}", host.kernel));
    }
    notes
}
