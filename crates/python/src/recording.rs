//! Recording a program.

use crate::error::exception;
use crate::job;
use crate::region::region;
use crate::settings;
use crate::values::document;
use pagewalk::engine::{Live, Noise};
use pagewalk::{Listener, recording};
use pyo3::prelude::*;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;

/// What `pagewalk.record` is given.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Settings {
    command: Vec<OsString>,
    output: PathBuf,
    grain: String,
    layout: Option<PathBuf>,
    from_marker: Option<u64>,
    to_marker: Option<u64>,
    skip: u64,
    max_instructions: Option<u64>,
    max_threads: Option<u32>,
}

/// Records a program: the files as data, and its exit code.
#[pyfunction]
pub fn record<'py>(py: Python<'py>, settings: Settings) -> PyResult<(Bound<'py, PyAny>, Option<i32>)> {
    let Settings { command, output, layout, .. } = &settings;
    let grain = settings::grain(&settings.grain)?;
    let window = region(settings.from_marker, settings.to_marker, settings.skip, settings.max_instructions);
    let first = recording::output(output, layout.as_deref()).map_err(exception)?;
    let (written, status) = job::run(py, |caller| {
        let live = Live::prepare(command, layout.as_deref(), caller)?;
        let live = live.with(Noise::Usual, settings.max_threads);
        let (written, status) = recording::images(&live, &window, grain, output, first, caller)?;
        for one in &written {
            let path = one.path.display();
            one.losses.iter().for_each(|loss| caller.warn(&format!("{path}: {loss}")));
            if let Err(error) = &one.outcome {
                caller.warn(&format!("{path}: {error}"));
            }
        }
        recording::check_written(&written)?;
        live.check_landed(caller)?;
        Ok((written, status))
    })?;
    let status = status.code().or_else(|| status.signal().map(|signal| -signal));
    Ok((document(py, &recording::document(&written))?, status))
}
