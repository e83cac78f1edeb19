//! Studies.

use crate::error::exception;
use crate::job;
use crate::result::{AnyResult, Document};
use pagewalk::study::{StudyFolder, check_findings};
use pyo3::prelude::*;
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Runs a study: its result, the folder with its files, and which findings that must hold do not.
#[pyfunction]
pub fn sweep(
    py: Python<'_>,
    study: PathBuf,
    traces: Vec<PathBuf>,
    output: Option<PathBuf>,
    threads: Option<NonZeroUsize>,
) -> PyResult<(Document, PathBuf)> {
    let (result, folder) = job::run(py, |caller| {
        let study = StudyFolder::read(&study, &traces, output.as_deref(), threads, caller)?;
        Ok((study.run(caller)?, study.folder().to_owned()))
    })?;
    Ok((Document(AnyResult::Sweep(Box::new(result))), folder))
}

/// Raises if findings of a study that must hold do not.
#[pyfunction]
pub fn check_study(document: &Document) -> PyResult<()> {
    match &document.0 {
        AnyResult::Sweep(result) => check_findings(result).map_err(exception),
        _ => Ok(()),
    }
}
