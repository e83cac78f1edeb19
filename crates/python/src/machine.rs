//! Machines: from the library, a file, a text, or keys.

use crate::error::{UsageError, exception};
use crate::values::{document, table};
use pagewalk::sim::Library;
use pagewalk::translate::MachineSpec;
use pagewalk::{Error, machines};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use toml::{Table, Value};

/// What a machine is called that gives no name.
const UNNAMED: &str = "machine";

/// A machine: its TLBs, walker and caches.
#[pyclass(frozen, eq, module = "pagewalk")]
pub struct Machine {
    pub spec: MachineSpec,
    text: String,
    /// Its file, or name; files that the text names are in this file's folder.
    origin: String,
}

impl PartialEq for Machine {
    fn eq(&self, other: &Machine) -> bool {
        (&self.spec, &self.text) == (&other.spec, &other.text)
    }
}

impl Machine {
    /// The machine of a text.
    fn parse(origin: &str, text: String) -> Result<Machine, Error> {
        Ok(Machine { spec: machines::parse(origin, &text)?, text, origin: origin.to_owned() })
    }

    /// The machine of a name of the library, or of a file.
    pub fn load(name: &str) -> Result<Machine, Error> {
        let (spec, text) = (machines::load(name)?, machines::text(name)?);
        // Later the working folder may be another.
        let path = std::path::absolute(name).ok().filter(|_| Library::is_path(name));
        let origin = path.map_or_else(|| name.to_owned(), |path| path.display().to_string());
        Ok(Machine { spec, text, origin })
    }
}

#[pymethods]
impl Machine {
    #[new]
    #[pyo3(signature = (source=None, /, **keys))]
    fn new(source: Option<&Bound<'_, PyAny>>, keys: Option<&Bound<'_, PyDict>>) -> PyResult<Machine> {
        match (source, keys) {
            (Some(_), Some(_)) => Err(UsageError::new_err(
                "a machine comes from a source or from keys, not from both\n  give changes to vary(...)",
            )),
            (Some(source), None) => {
                let source: String = source.str()?.extract()?;
                let is_text = source.contains('\n') || source.contains('=');
                let machine = if is_text { Machine::parse(UNNAMED, source) } else { Machine::load(&source) };
                machine.map_err(exception)
            }
            (None, Some(keys)) => {
                let mut keys = table(keys)?;
                keys.entry("schema").or_insert(Value::Integer(1));
                let text = toml::to_string(&keys).map_err(|error| UsageError::new_err(error.to_string()))?;
                Machine::parse(UNNAMED, text).map_err(exception)
            }
            (None, None) => Machine::load(machines::HOST).map_err(exception),
        }
    }

    /// The names of the library's machines.
    #[staticmethod]
    fn names() -> Vec<&'static str> {
        Library::names().collect()
    }

    #[getter]
    fn name(&self) -> &str {
        &self.spec.name
    }

    /// The machine file's text.
    #[getter]
    fn toml(&self) -> &str {
        &self.text
    }

    /// Its structure as data, as results hold it.
    #[getter]
    fn description<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        document(py, &machines::description(&self.spec))
    }

    #[pyo3(signature = (changes=None, /, **keys))]
    fn vary(
        &self,
        changes: Option<&Bound<'_, PyDict>>,
        keys: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Machine> {
        let mut all = changes.map(table).transpose()?.unwrap_or_default();
        let keys = keys.map(table).transpose()?.unwrap_or_default();
        all.extend(keys.into_iter().map(|(key, value)| (key.replace("__", "."), value)));
        if !all.contains_key("name") {
            all.insert("name".to_owned(), Value::String(varied_name(&self.spec.name, &all)));
        }
        let text = machines::vary(&self.spec.name, &self.text, &all).map_err(exception)?;
        Machine::parse(&self.origin, text).map_err(exception)
    }

    /// What pickle calls.
    #[staticmethod]
    fn _of(origin: &str, text: String) -> PyResult<Machine> {
        Machine::parse(origin, text).map_err(exception)
    }

    fn __repr__(&self) -> String {
        format!("<pagewalk.Machine {}>", self.spec.name)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let of = py.get_type::<Machine>().getattr("_of")?;
        Ok((of, PyTuple::new(py, [&self.origin, &self.text])?))
    }
}

/// The name of a machine with these changes, such as `zen4_tlb-l2d-entries_6144`: results tell machines apart by name.
fn varied_name(name: &str, changes: &Table) -> String {
    let changes: String = changes.iter().map(|(key, value)| format!("_{key}_{value}")).collect();
    let letter = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    name.to_owned() + &changes.replace('"', "").chars().map(letter).collect::<String>()
}
