//! Values between Python and the library: TOML tables in, JSON documents out.

use crate::error::UsageError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use serde::Serialize;
use toml::{Table, Value};

/// A document as dicts and lists of Python.
pub fn document<'py>(py: Python<'py>, value: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    let text = serde_json::to_string(value).map_err(|error| UsageError::new_err(error.to_string()))?;
    from_json(py, &text)
}

/// JSON text as dicts and lists of Python.
pub fn from_json<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("json")?.call_method1("loads", (text,))
}

/// A dict as a table of TOML.
///
/// # Errors
/// If TOML has no such value, or a key is no text.
pub fn table(dict: &Bound<'_, PyDict>) -> PyResult<Table> {
    dict.iter().map(|(key, item)| Ok((key.extract::<String>()?, value(&item)?))).collect()
}

fn value(item: &Bound<'_, PyAny>) -> PyResult<Value> {
    // A bool is an int in Python.
    if item.is_instance_of::<PyBool>() {
        return Ok(Value::Boolean(item.extract()?));
    }
    if item.is_instance_of::<PyInt>() {
        return Ok(Value::Integer(item.extract()?));
    }
    if item.is_instance_of::<PyFloat>() {
        return Ok(Value::Float(item.extract()?));
    }
    if item.is_instance_of::<PyString>() {
        return Ok(Value::String(item.extract()?));
    }
    if let Ok(dict) = item.cast::<PyDict>() {
        return table(dict).map(Value::Table);
    }
    if item.is_instance_of::<PyList>() || item.is_instance_of::<PyTuple>() {
        let items: PyResult<Vec<Value>> = item.try_iter()?.map(|item| value(&item?)).collect();
        return items.map(Value::Array);
    }
    let what = item.get_type().name()?;
    let why = format!("no value of a machine file is a {what}: give a number, a text, a list or a dict");
    Err(UsageError::new_err(why))
}
