//! Runs a program with planned ranges on huge pages.

use super::fitting::FittedPlan;
use super::outcome;
use crate::error::{Error, Fault};
use crate::listener::Listener;
use crate::native::{end, relay_signals};
use crate::program::{OR_DEFAULT, cannot_trace, check_command, does_not_fit};
use pagewalk_live::pages::{self, PagesError, PagesOptions, PagesRun};
use pagewalk_live::tracing::{LaunchError, ProcessEnd, Relay};
use pagewalk_report::documents::plans::{APPLY_SCHEMA, AppliedRun, ApplyResult};
use pagewalk_report::{Class, classes};
use std::ffi::{CString, OsString};
use std::path::Path;

/// How a program runs under a plan.
#[derive(Clone, Copy, Default)]
pub struct RunOptions {
    /// Whether to let a host in mode `always` also give huge pages to unplanned memory.
    pub keep_others: bool,
    /// Whether to run the program in any case.
    pub or_default: bool,
    /// Whether to detach when the plan is in place.
    pub release: bool,
}

impl RunOptions {
    /// For a plan's program, with our standard streams or with this file as input.
    pub(crate) fn for_plan(self, fitting: &FittedPlan, input: Option<CString>) -> PagesOptions {
        PagesOptions {
            program: fitting.program.clone(),
            keep_small: fitting.can_keep_small && !self.keep_others,
            or_default: self.or_default,
            release: self.release,
            objects: fitting.objects.clone(),
            input,
        }
    }
}

/// A program that ran under a plan.
pub struct AppliedPlan {
    fitting: FittedPlan,
    run: PagesRun,
}

/// Runs a program under the plan at `path`; first notes differences from where the plan was made.
///
/// # Errors
/// If the plan does not fit, or the program cannot run.
pub fn run(
    path: &Path,
    command: &[OsString],
    options: RunOptions,
    listener: &dyn Listener,
) -> Result<AppliedPlan, Error> {
    static RELAY: Relay = Relay::new();
    let fitting = FittedPlan::new(path)?;
    check_command(&command[0], OR_DEFAULT)?;
    fitting.notes.iter().for_each(|note| listener.note(note));
    let signals = relay_signals(&RELAY, listener)?;
    let run = pages::run(command, &fitting.plan, &options.for_plan(&fitting, None), &RELAY);
    drop(signals);
    Ok(AppliedPlan { run: run.map_err(failed)?, fitting })
}

/// The error for a failed run.
pub(crate) fn failed(error: PagesError) -> Error {
    match error {
        PagesError::Launch(error @ LaunchError::Trace(_)) => cannot_trace(error),
        PagesError::Program { .. } | PagesError::Layout(_) | PagesError::File { .. } => {
            does_not_fit(&error, OR_DEFAULT)
        }
        error => Error::new(Fault::Failed, error),
    }
}

impl AppliedPlan {
    /// The ranges and libraries of each image, as text.
    pub fn tables(&self) -> String {
        outcome::tables(&self.fitting, &self.run)
    }

    /// Harmless facts that the user should know.
    pub fn notes(&self) -> Vec<String> {
        outcome::notes(&self.fitting, &self.run)
    }

    /// Why the plan did not take effect, if it did not.
    pub fn missed(&self) -> Option<String> {
        outcome::missed(&self.fitting, &self.run)
    }

    /// How the program ended.
    pub fn end(&self) -> ProcessEnd {
        self.run.timed.end
    }

    /// As data.
    pub fn document(&self, path: &Path, command: &[OsString]) -> ApplyResult {
        let AppliedPlan { fitting, run } = self;
        let plan = &fitting.plan;
        ApplyResult::Run(AppliedRun {
            schema: APPLY_SCHEMA,
            plan: outcome::plan_file(path, plan),
            command: command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
            end: end(run.timed.end),
            seconds: run.timed.wall.as_secs_f64(),
            processor_seconds: run.timed.processor().as_secs_f64(),
            resident_bytes: run.timed.resident_bytes,
            classes: classes(&[outcome::FIGURES, (Class::Measured, &["seconds", "processor_seconds"])]),
            mode: fitting.mode.name(),
            in_effect: self.missed().is_none(),
            images: run.images.iter().map(|image| outcome::image(plan, image)).collect(),
            libraries: outcome::landings(fitting, run).documents(),
            other_programs: run.others.clone(),
            notes: fitting.notes.iter().cloned().chain(self.notes()).collect(),
        })
    }
}
