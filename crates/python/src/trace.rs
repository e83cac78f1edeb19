//! Traces: what they hold, whether they are sound, their events and references.

use crate::blocks::BlockTable;
use crate::column::Batch;
use crate::error::{BadInputError, exception};
use crate::job;
use crate::references::{References, SCHEMA};
use crate::region::region;
use crate::values::{document, from_json};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use pagewalk::SilentListener;
use pagewalk::capture::{Window, WindowSpec};
use pagewalk::output::cannot_write;
use pagewalk::stream::follow;
use pagewalk::trace::{Item, Source, SourceError};
use pagewalk::traces::inputs::Inputs;
use pagewalk::traces::soundness::{Soundness, info};
use pagewalk::traces::{TraceReader, conversion, open};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Events that are read at once, without the interpreter's lock.
const EVENTS_AT_ONCE: usize = 1024;

/// A recorded stream of one process image.
#[pyclass(frozen, module = "pagewalk")]
pub struct Trace {
    path: PathBuf,
}

/// A path, or several.
#[derive(FromPyObject)]
enum OneOrMore {
    One(PathBuf),
    More(Vec<PathBuf>),
}

#[pymethods]
impl Trace {
    #[new]
    fn new(path: PathBuf) -> PyResult<Trace> {
        open(&path, &SilentListener).map_err(exception)?;
        Ok(Trace { path })
    }

    /// Converts other tools' files.
    #[staticmethod]
    #[pyo3(signature = (files, output, format=None))]
    fn convert(py: Python<'_>, files: OneOrMore, output: PathBuf, format: Option<&str>) -> PyResult<Trace> {
        let files = match files {
            OneOrMore::One(file) => vec![file],
            OneOrMore::More(files) => files,
        };
        job::run(py, |caller| {
            let inputs = Inputs::open(&files)?;
            let name = inputs.name.clone();
            let (ending, _) = conversion::import(inputs, format, &output, caller)?;
            ending.tell_losses(&name, caller);
            Ok(())
        })?;
        Ok(Trace { path: output })
    }

    /// Writes it in another tool's format.
    fn export(&self, py: Python<'_>, format: &str, path: PathBuf) -> PyResult<()> {
        job::run(py, |caller| {
            let (ending, written) = conversion::export(&self.path, format, Some(&path), caller)?;
            written.map_err(|error| cannot_write(&path, &error))?;
            ending.tell_losses(&self.path, caller);
            Ok(())
        })
    }

    #[getter]
    fn path(&self) -> &Path {
        &self.path
    }

    #[getter]
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let info = py.detach(|| info(&self.path)).map_err(exception)?;
        document(py, &info)
    }

    fn check<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let found = job::run(py, |caller| Soundness::of(&self.path, caller))?;
        document(py, &found.document(&self.path))
    }

    fn events(&self) -> PyResult<Events> {
        let source = open(&self.path, &SilentListener).map_err(exception)?;
        let source = EventSource { source, rest: Vec::new(), damage: None };
        Ok(Events { trace: self.path.clone(), source: Mutex::new(source) })
    }

    /// The blocks of code by number. Reads the whole trace.
    fn blocks(&self, py: Python<'_>) -> PyResult<Batch> {
        let (table, ending) = job::run(py, |caller| {
            let mut table = BlockTable::default();
            let ending = follow(open(&self.path, caller)?, &WindowSpec::default(), &mut table);
            Ok((table, ending))
        })?;
        match ending.cut {
            true => {
                Err(BadInputError::new_err(format!("{}: {}", self.path.display(), ending.losses.join("; "))))
            }
            false => Ok(Batch(table.finish())),
        }
    }

    #[pyo3(signature = (rows=65_536, *, from_marker=None, to_marker=None, skip=0, max_instructions=None))]
    fn batches(
        &self,
        rows: usize,
        from_marker: Option<u64>,
        to_marker: Option<u64>,
        skip: u64,
        max_instructions: Option<u64>,
    ) -> PyResult<Batches> {
        if rows == 0 {
            return Err(PyValueError::new_err("rows: a batch has at least one reference"));
        }
        let window = region(from_marker, to_marker, skip, max_instructions);
        let reader = open(&self.path, &SilentListener).map_err(exception)?;
        let references = References::new(Window::new(reader, window), rows);
        Ok(Batches { trace: self.path.clone(), references: Arc::new(Mutex::new(references)) })
    }

    fn __fspath__(&self) -> &OsStr {
        self.path.as_os_str()
    }

    fn __repr__(&self) -> String {
        format!("<pagewalk.Trace {}>", self.path.display())
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> (Bound<'py, PyAny>, (PathBuf,)) {
        (py.get_type::<Trace>().into_any(), (self.path.clone(),))
    }
}

fn damaged(trace: &Path, error: &SourceError) -> PyErr {
    BadInputError::new_err(format!("{}: {error}", trace.display()))
}

/// An iterator over a trace's batches, and a stream of Arrow.
#[pyclass(frozen, module = "pagewalk")]
pub struct Batches {
    trace: PathBuf,
    references: Arc<Mutex<References>>,
}

#[pymethods]
impl Batches {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        let next = py.detach(|| self.references.lock().unwrap_or_else(PoisonError::into_inner).next_batch());
        next.map(|batch| batch.map(Batch)).map_err(|error| damaged(&self.trace, &error))
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // A producer may ignore the wish for other types.
        drop(requested_schema);
        let stream = FFI_ArrowArrayStream::new(Box::new(BatchStream(Arc::clone(&self.references))));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}

/// The rest of the batches, for consumers of Arrow.
struct BatchStream(Arc<Mutex<References>>);

impl Iterator for BatchStream {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.0.lock().unwrap_or_else(PoisonError::into_inner).next_batch();
        next.map_err(|error| ArrowError::ExternalError(Box::new(error))).transpose()
    }
}

impl RecordBatchReader for BatchStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&SCHEMA)
    }
}

/// An iterator over a trace's events.
#[pyclass(frozen, module = "pagewalk")]
pub struct Events {
    trace: PathBuf,
    source: Mutex<EventSource>,
}

/// A reader, and the JSON of events that were read but not yet asked for, last first.
struct EventSource {
    source: TraceReader,
    rest: Vec<(u64, String)>,
    /// The damage after them.
    damage: Option<SourceError>,
}

impl EventSource {
    fn next_event(&mut self) -> Result<Option<(u64, String)>, SourceError> {
        if self.rest.is_empty() {
            self.damage.take().map_or(Ok(()), Err)?;
            self.damage = self.read().err();
            self.rest.reverse();
        }
        match self.rest.pop() {
            None => self.damage.take().map_or(Ok(None), Err),
            next => Ok(next),
        }
    }

    fn read(&mut self) -> Result<(), SourceError> {
        while self.rest.len() < EVENTS_AT_ONCE {
            match self.source.next_item()? {
                Some(Item::Event { at, event }) => {
                    let text = serde_json::to_string(&event).map_err(std::io::Error::other)?;
                    self.rest.push((at.0, text));
                }
                Some(Item::Batch(_)) => {}
                None => break,
            }
        }
        Ok(())
    }
}

#[pymethods]
impl Events {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let next = py.detach(|| self.source.lock().unwrap_or_else(PoisonError::into_inner).next_event());
        let Some((at, text)) = next.map_err(|error| damaged(&self.trace, &error))? else { return Ok(None) };
        let dict = PyDict::new(py);
        dict.set_item("at", at)?;
        // The file's form of an event has its name outside of its facts.
        for (name, facts) in from_json(py, &text)?.cast_into::<PyDict>()? {
            dict.set_item("event", name)?;
            dict.update(facts.cast::<PyDict>()?.as_mapping())?;
        }
        Ok(Some(dict))
    }
}
