//! The compiled half of the Python package `pagewalk`: the library's functions and types for Python.
//!
//! Nothing here computes. [`job`] runs work without the interpreter's lock and ends it at Ctrl-C; [`error`] turns the
//! library's errors into exceptions. `python/pagewalk` has the rest: keyword arguments, data frames, notebooks.

mod advice;
mod blocks;
mod column;
mod error;
mod experiment;
mod job;
mod machine;
mod metrics;
mod plan;
mod recording;
mod references;
mod region;
mod result;
mod settings;
mod study;
mod trace;
mod values;

use pyo3::prelude::*;
use std::ffi::OsString;

/// Runs the command with these words; returns its exit code.
#[pyfunction]
fn main(py: Python<'_>, words: Vec<OsString>) -> u8 {
    py.detach(|| pagewalk_cli::main(words, Some(&study::on_dask)))
}

/// The compiled half of pagewalk.
#[pymodule]
fn _pagewalk(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    error::register(module)?;
    module.add_class::<column::Batch>()?;
    module.add_class::<column::Column>()?;
    module.add_class::<machine::Machine>()?;
    module.add_class::<result::Document>()?;
    module.add_class::<study::StudyJobs>()?;
    module.add_class::<trace::Batches>()?;
    module.add_class::<trace::Events>()?;
    module.add_class::<trace::Trace>()?;
    module.add_function(wrap_pyfunction!(main, module)?)?;
    module.add_function(wrap_pyfunction!(advice::advise, module)?)?;
    module.add_function(wrap_pyfunction!(advice::advise_process, module)?)?;
    module.add_function(wrap_pyfunction!(advice::probe_host, module)?)?;
    module.add_function(wrap_pyfunction!(advice::saved_probe, module)?)?;
    module.add_function(wrap_pyfunction!(experiment::check, module)?)?;
    module.add_function(wrap_pyfunction!(experiment::simulate, module)?)?;
    module.add_function(wrap_pyfunction!(metrics::metric, module)?)?;
    module.add_function(wrap_pyfunction!(plan::apply_plan, module)?)?;
    module.add_function(wrap_pyfunction!(plan::outline_plan, module)?)?;
    module.add_function(wrap_pyfunction!(plan::verify_plan, module)?)?;
    module.add_function(wrap_pyfunction!(recording::record, module)?)?;
    module.add_function(wrap_pyfunction!(result::read_result, module)?)?;
    module.add_function(wrap_pyfunction!(study::run_job, module)?)?;
    module.add_function(wrap_pyfunction!(study::scheduler_of, module)?)?;
    module.add_function(wrap_pyfunction!(study::check_study, module)?)?;
    module.add_function(wrap_pyfunction!(study::sweep, module)?)
}
