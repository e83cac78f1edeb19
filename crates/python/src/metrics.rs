//! The registry of metrics.

use crate::error::exception;
use pagewalk::report::metrics;
use pagewalk::units::names::closest;
use pagewalk::units::names::meant;
use pagewalk::{Error, Fault};
use pyo3::prelude::*;

/// A metric's unit, class and meaning; or why there is none of the name.
#[pyfunction]
pub fn metric(name: &str) -> PyResult<(&'static str, &'static str, &'static str)> {
    let found = metrics::find(name).ok_or_else(|| {
        let error = Error::new(Fault::Usage, format!("no metric is named `{name}`"));
        let near = meant(&closest(name, metrics::all().map(|metric| metric.id)));
        exception(error.or(near.unwrap_or_else(|| "`pagewalk schema metrics` lists all".to_owned())))
    })?;
    Ok((found.unit.name(), found.class.name(), found.doc))
}
