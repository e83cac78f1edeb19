//! A plan beside this host and the program that is to run so.

use crate::error::{CliError, Code};
use pagewalk_capture::{CaptureError, check_program};
use pagewalk_live::pages::plan::Plan;
use pagewalk_live::pages::{EXCEPT_ADVISED_SINCE, Mode, is_since, kernel, mode};
use std::ffi::OsStr;
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

/// What the user can do beside planning again.
const OTHERWISE: &str = "make a new plan, or start it without: --or-default";

/// A plan that fits.
pub struct Fitting {
    pub plan: Plan,
    /// Its program, without symbolic links.
    pub program: PathBuf,
    /// This host's mode.
    pub mode: Mode,
    /// What is different here from where it was made, and what this host cannot.
    pub notes: Vec<String>,
    /// Whether unplanned memory has to be kept on small pages, and can be.
    pub can_keep_small: bool,
}

impl Fitting {
    /// Reads the plan at `path`, and compares it with its program and this host.
    pub fn new(path: &Path) -> Result<Fitting, CliError> {
        let plan = Plan::read(path).map_err(|error| CliError::new(Code::BadInput, error))?;
        let program = program(&plan)?;
        let mode = mode().ok_or_else(|| {
            CliError::new(Code::HostCannot, "this kernel has no transparent huge pages")
                .or("to enable: a kernel with CONFIG_TRANSPARENT_HUGEPAGE")
        })?;
        let mut notes = differences(&plan, mode);
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
        Ok(Fitting { plan, program, mode, notes, can_keep_small })
    }

    /// Checks that a command can be started under a plan. It need not be the planned program: that may be one that it
    /// starts.
    pub fn check_command(command: &OsStr) -> Result<(), CliError> {
        check_program(command).map(drop).map_err(|error| match error {
            CaptureError::Privileged { path } => does_not_fit(&format!(
                "{} gains privileges when it starts, which a program that is traced does not",
                path.display()
            )),
            CaptureError::OtherArchitecture { path, found } => {
                does_not_fit(&format!("{} is a {found} program; plans are for x86-64", path.display()))
            }
            error => CliError::new(Code::Usage, error),
        })
    }
}

/// The plan is for something else.
pub fn does_not_fit(error: &dyn Display) -> CliError {
    CliError::new(Code::NotInEffect, error).or(OTHERWISE)
}

fn program(plan: &Plan) -> Result<PathBuf, CliError> {
    let path = &plan.program.path;
    let program = fs::canonicalize(path)
        .map_err(|error| does_not_fit(&format!("the plan's program {path} is not there: {error}")))?;
    if let Some(planned) = &plan.program.build_id {
        let found = pagewalk_symbols::build_id(&program.to_string_lossy());
        if !found.as_ref().is_some_and(|found| found.eq_ignore_ascii_case(planned)) {
            let found = found.as_deref().unwrap_or("none");
            return Err(does_not_fit(&format!(
                "{path} is another build than the plan's: build-id {found}, planned for {planned}"
            )));
        }
    }
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
