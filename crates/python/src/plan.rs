//! Plans: what they would do, running programs under them, and measuring what they save.

use crate::error::UsageError;
use crate::job;
use crate::result::Document;
use pagewalk::plans::{PairOptions, Pairs, RunOptions, history, outline, run};
use pagewalk::report::TextOptions;
use pagewalk::{Error, Fault, Listener};
use pyo3::prelude::*;
use std::ffi::OsString;
use std::fmt::Display;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set when the user asks to stop measuring.
static STOPPED: AtomicBool = AtomicBool::new(false);

/// Refuses an empty command.
fn check_command(command: &[OsString]) -> PyResult<()> {
    match command.is_empty() {
        true => Err(UsageError::new_err("no program to run")),
        false => Ok(()),
    }
}

/// What a plan would do.
#[pyfunction]
pub fn outline_plan(py: Python<'_>, path: PathBuf, program: Option<OsString>) -> PyResult<Document> {
    let preview = job::run(py, |_| outline(&path, program.as_ref()))?;
    Ok(Document::other(&preview.document, preview.text))
}

/// Runs a program under a plan: the result, and the error's text if the plan had no effect.
#[pyfunction]
pub fn apply_plan(
    py: Python<'_>,
    path: PathBuf,
    command: Vec<OsString>,
    keep_others: bool,
    release: bool,
) -> PyResult<(Document, Option<String>)> {
    check_command(&command)?;
    let options = RunOptions { keep_others, or_default: false, release };
    let applied = job::run(py, |caller| {
        let applied = run(&path, &command, options, caller)?;
        applied.notes().iter().for_each(|note| caller.note(note));
        Ok(applied)
    })?;
    let document = Document::other(&applied.document(&path, &command), applied.tables());
    Ok((document, applied.missed().map(not_in_effect)))
}

/// What `Plan.verify` is given.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Settings {
    path: PathBuf,
    command: Vec<OsString>,
    runs: u32,
    width: f64,
    budget: Option<f64>,
    keep_others: bool,
    warm: bool,
    record: bool,
}

/// Measures a plan: the result, whether it surely saves time, and the error's text if the plan had no effect.
#[pyfunction]
pub fn verify_plan(py: Python<'_>, settings: Settings) -> PyResult<(Document, bool, Option<String>)> {
    let Settings { path, command, runs, width, budget, keep_others, warm, record } = settings;
    check_command(&command)?;
    let options = PairOptions { runs, width, budget, keep_others, warm };
    let verified = job::run(py, |caller| {
        STOPPED.store(false, Ordering::Relaxed);
        let pairs = Pairs::prepare(&path, &command, options)?;
        let record_to = record.then(history::place).transpose()?;
        let verified = pairs.run(&STOPPED, caller)?;
        verified.notes().iter().for_each(|note| caller.note(note));
        if let (None, Some(path)) = (verified.missed(), record_to) {
            history::append(&path, &verified.record())?;
        }
        Ok(verified)
    })?;
    let text = verified.text(&TextOptions { width: 100, color: false, verbose: false });
    let document = Document::other(&verified.document(), text);
    Ok((document, verified.pays(), verified.missed().map(not_in_effect)))
}

fn not_in_effect(missed: impl Display) -> String {
    Error::new(Fault::NotInEffect, missed).to_string()
}
