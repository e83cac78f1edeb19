//! Experiments: machines under kernels, over traces or a running program.

use crate::error::exception;
use crate::job::{self, Caller};
use crate::machine::Machine;
use crate::region::region;
use crate::result::{AnyResult, Document};
use crate::settings;
use pagewalk::engine::Live;
use pagewalk::experiment::{Experiment, policies, sharing};
use pagewalk::report::schema::RunResult;
use pagewalk::translate::MachineSpec;
use pagewalk::{Error, Listener, SilentListener, machines};
use pyo3::prelude::*;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;

/// What `pagewalk.Experiment` holds.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Settings<'py> {
    machines: Vec<Bound<'py, Machine>>,
    traces: Vec<PathBuf>,
    command: Vec<OsString>,
    thp: Option<String>,
    what_if: bool,
    kernels: Vec<String>,
    structure: Option<String>,
    cores: Option<u8>,
    quantum: Option<u64>,
    switch_at: Vec<String>,
    global_files: bool,
    by_traps: Option<u32>,
    layout: Option<PathBuf>,
    areas: Option<String>,
    from_marker: Option<u64>,
    to_marker: Option<u64>,
    skip: u64,
    max_instructions: Option<u64>,
    max_threads: Option<u32>,
}

/// What a run needs, free of Python.
struct Run {
    experiment: Experiment,
    traces: Vec<PathBuf>,
    command: Vec<OsString>,
    max_threads: Option<u32>,
}

impl Settings<'_> {
    fn run(self) -> PyResult<Run> {
        let given: Vec<MachineSpec> =
            self.machines.iter().map(|machine| machine.get().spec.clone()).collect();
        let thp = settings::thp(self.thp.as_deref())?;
        let areas = settings::areas(self.areas.as_deref())?;
        let window = region(self.from_marker, self.to_marker, self.skip, self.max_instructions);
        let build = || -> Result<Experiment, Error> {
            Ok(Experiment {
                machines: match given.is_empty() {
                    true => machines::chosen(&[], &SilentListener)?,
                    false => machines::together(given)?,
                },
                thp,
                window,
                what_if: self.what_if,
                kernels: policies(&self.kernels)?,
                structure: self.structure.as_deref().map(machines::structure).transpose()?,
                cores: self.cores,
                sharing: sharing(self.quantum, &self.switch_at, self.global_files)?,
                by_traps: self.by_traps,
                layout: self.layout,
                areas,
            })
        };
        let experiment = build().map_err(exception)?;
        let Settings { traces, command, max_threads, .. } =
            Settings { machines: Vec::new(), layout: None, structure: None, ..self };
        Ok(Run { experiment, traces, command, max_threads })
    }
}

/// How a run ended: whether a trace could not be read to its end, and the program's exit code.
struct Outcome {
    result: RunResult,
    cut: bool,
    status: Option<i32>,
}

impl Run {
    fn simulate(&self, caller: &Caller) -> Result<Outcome, Error> {
        self.experiment.check(&self.traces)?;
        let outcome = match self.command.is_empty() {
            true => {
                let outcome = self.experiment.traces(&self.traces, caller)?;
                Outcome { result: outcome.result, cut: outcome.cut, status: None }
            }
            false => self.program(caller)?,
        };
        if let Err(error) = self.experiment.check_prices(&outcome.result) {
            caller.warn(&error);
        }
        Ok(outcome)
    }

    fn program(&self, caller: &Caller) -> Result<Outcome, Error> {
        let live = Live::prepare(&self.command, self.experiment.layout.as_deref(), caller)?;
        let live = live.with(pagewalk::engine::Noise::Usual, self.max_threads);
        let (result, status) = self.experiment.program(&live, caller)?;
        live.check_landed(caller)?;
        let status = status.code().or_else(|| status.signal().map(|signal| -signal));
        Ok(Outcome { result, cut: false, status })
    }
}

/// Checks that the settings go together.
#[pyfunction]
pub fn check(py: Python<'_>, settings: Settings<'_>) -> PyResult<()> {
    let run = settings.run()?;
    job::run(py, |_| run.experiment.check(&run.traces))
}

/// Runs an experiment: the result, whether a trace was cut, and the program's exit code.
#[pyfunction]
pub fn simulate(py: Python<'_>, settings: Settings<'_>) -> PyResult<(Document, bool, Option<i32>)> {
    let run = settings.run()?;
    let Outcome { result, cut, status } = job::run(py, |caller| run.simulate(caller))?;
    Ok((Document(AnyResult::Run(Box::new(result))), cut, status))
}
