//! `pagewalk simulate --layout PLAN.toml T.pwt`: a recorded stream with its shared objects elsewhere.

use crate::error::{CliError, Code};
use crate::output::say;
use pagewalk_layout::Plan;
use pagewalk_layout::rebase::{self, Bound, RebaseError, Rebased};
use pagewalk_trace::pwt::{Events, events};
use pagewalk_trace::{Event, Source};
use std::fmt::Display;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// A plan that was read.
pub struct PlanFile {
    path: PathBuf,
    plan: Plan,
}

impl PlanFile {
    /// Reads and checks the plan at `path`.
    pub fn read(path: &Path) -> Result<PlanFile, CliError> {
        let plan = Plan::read(path).map_err(|error| CliError::new(Code::BadInput, error))?;
        Ok(PlanFile { path: path.to_owned(), plan })
    }

    /// `reader`, which reads `trace` from its beginning, with the trace's objects where the plan says.
    pub fn move_objects<S: Source>(&self, trace: &Path, reader: S) -> Result<Rebased<S>, CliError> {
        Ok(Rebased::new(reader, &self.bind(trace)?))
    }

    /// The plan's places in `trace`: what cannot be as planned is found by looking through its events, before anything
    /// is simulated.
    pub fn bind(&self, trace: &Path) -> Result<Bound, CliError> {
        check_file(trace, "--layout")?;
        let recorded = recorded(trace)?;
        let bound = Bound::new(&self.plan, &recorded.header, recorded.in_order());
        let bound = bound.map_err(|error| does_not_fit(&self.path.display(), trace, &error))?;
        for file in bound.absent() {
            say(format!("{}: {file} is no shared object of {}", self.path.display(), trace.display()));
        }
        Ok(bound)
    }
}

/// The places of a plan that was just made from `trace`, its arena moved to where they find room there.
pub fn slide(plan: &mut Plan, trace: &Path) -> Result<Bound, CliError> {
    let recorded = recorded(trace)?;
    rebase::slide(plan, &recorded.header, recorded.in_order())
        .map_err(|error| does_not_fit(&"the plan", trace, &error))
}

fn recorded(trace: &Path) -> Result<Events, CliError> {
    let bad = |error: &dyn Display| bad(trace, error);
    let file = File::open(trace).map_err(|error| bad(&error))?;
    let file = BufReader::with_capacity(1 << 20, file);
    events(file, Event::moves_memory).map_err(|error| bad(&error))
}

fn does_not_fit(plan: &dyn Display, trace: &Path, error: &RebaseError) -> CliError {
    let why = format!("{plan} does not fit {}: {error}", trace.display());
    CliError::new(Code::BadInput, why).or("make a plan for this trace")
}

fn bad(trace: &Path, error: &dyn Display) -> CliError {
    CliError::new(Code::BadInput, format!("{}: {error}", trace.display()))
}

/// Refuses a trace that can be read only once, for `what`.
pub fn check_file(trace: &Path, what: &str) -> Result<(), CliError> {
    let about = trace.metadata().map_err(|error| bad(trace, &error))?;
    if !about.is_file() {
        let why = format!("{what} reads a trace twice, and this is no file");
        return Err(bad(trace, &why).or("write it to a file first"));
    }
    Ok(())
}
