//! Advice on huge pages, and probes of this host.

use crate::error::exception;
use crate::job::{self, Caller};
use crate::machine::Machine;
use crate::result::{AnyResult, Document};
use crate::settings;
use pagewalk::advice::{self, AdviceOptions, NOTHING_PAYS, ProcessOptions, ProcessWatch};
use pagewalk::probe::{self, measure};
use pagewalk::report::huge_pages;
use pagewalk::{Error, machines};
use pyo3::prelude::*;
use std::ffi::OsString;
use std::path::PathBuf;

/// What `pagewalk.advise` is given.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Settings {
    command: Vec<OsString>,
    trace: Option<PathBuf>,
    seconds: Vec<f64>,
    input: Option<PathBuf>,
    runs: u32,
    warm: bool,
    trial: bool,
    budget: Option<u64>,
    probe: Option<PathBuf>,
    machine: Option<String>,
    thp: Option<String>,
}

/// A plan's text, or why there is none.
type PlanText = Result<String, String>;

fn advised(options: &AdviceOptions, caller: &Caller) -> Result<(huge_pages::AdviceResult, PlanText), Error> {
    let advice = advice::advise(options, caller)?;
    let plan = advice.plan()?.ok_or_else(|| NOTHING_PAYS.to_owned());
    Ok((advice.result, plan))
}

/// Advises on a program: the result, the plan's text, or why there is none.
#[pyfunction]
pub fn advise(py: Python<'_>, settings: Settings) -> PyResult<(Document, Option<String>, Option<String>)> {
    let options = AdviceOptions {
        trace: settings.trace,
        seconds: settings.seconds,
        command: settings.command,
        input: settings.input,
        runs: settings.runs,
        warm: settings.warm,
        no_trial: !settings.trial,
        budget: settings.budget,
        probe: settings.probe,
        machines: settings.machine.into_iter().collect(),
        thp: settings::thp(settings.thp.as_deref())?,
    };
    let (result, plan) = job::run(py, |caller| advised(&options, caller))?;
    Ok((Document(AnyResult::Advice(Box::new(result))), plan.as_ref().ok().cloned(), plan.err()))
}

/// Advises on a running process, likewise.
#[pyfunction]
pub fn advise_process(
    py: Python<'_>,
    pid: i32,
    watch: f64,
    budget: Option<u64>,
    probe: Option<PathBuf>,
) -> PyResult<(Document, Option<String>, Option<String>)> {
    let options = ProcessOptions { pid, probe, budget, watch };
    let advice = job::run(py, |caller| ProcessWatch::prepare(&options, caller)?.run(caller.stop(), caller))?;
    let plan = advice.plan();
    let document = Document::other(&advice.document(), advice.text(true));
    Ok((document, plan.as_ref().ok().cloned(), plan.err().map(str::to_owned)))
}

/// Measures this host: the result, and the machine file's text.
#[pyfunction]
pub fn probe_host(
    py: Python<'_>,
    cpu: Option<usize>,
    quick: bool,
    machine: Option<&Bound<'_, Machine>>,
) -> PyResult<(Document, String)> {
    let compared = machine.map(|machine| machine.get().spec.clone());
    let options = probe::ProbeOptions { cpu, quick };
    let measured = job::run(py, |caller| measure(options, compared.as_ref(), caller))?;
    Ok((Document(AnyResult::Probe(Box::new(measured.result))), measured.machine))
}

/// Where `Machine("host")` looks for a probe's machine file.
#[pyfunction]
pub fn saved_probe() -> PyResult<PathBuf> {
    machines::saved_probe().ok_or_else(|| {
        exception(Error::new(
            pagewalk::Fault::HostCannot,
            "neither XDG_CONFIG_HOME nor HOME says where settings are kept",
        ))
    })
}
