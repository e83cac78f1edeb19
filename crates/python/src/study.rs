//! Studies.

use crate::error::{exception, of_exception};
use crate::job;
use crate::result::{AnyResult, Document};
use pagewalk::report::sweep::SweepResult;
use pagewalk::study::{self, JobEnd, Place, StudyFolder, check_findings};
use pagewalk::{Error, Fault};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Runs a study: its result, and the folder with its files.
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
    Ok((document(result), folder))
}

fn document(result: SweepResult) -> Document {
    Document(AnyResult::Sweep(Box::new(result)))
}

/// Raises if findings of a study that must hold do not.
#[pyfunction]
pub fn check_study(document: &Document) -> PyResult<()> {
    match &document.0 {
        AnyResult::Sweep(result) => check_findings(result).map_err(exception),
        _ => Ok(()),
    }
}

/// The `HOST:PORT` of a Dask scheduler; None for this process.
#[pyfunction]
pub fn scheduler_of(place: &str) -> PyResult<Option<String>> {
    match place.parse().map_err(exception)? {
        Place::Local => Ok(None),
        Place::Dask(address) => Ok(Some(address)),
    }
}

/// The jobs of a study that are not done, until they are gathered.
#[pyclass(frozen, module = "pagewalk._pagewalk")]
pub struct StudyJobs(Mutex<Option<study::StudyJobs>>);

#[pymethods]
impl StudyJobs {
    #[new]
    fn new(
        py: Python<'_>,
        study: PathBuf,
        traces: Vec<PathBuf>,
        output: Option<PathBuf>,
    ) -> PyResult<StudyJobs> {
        let jobs = job::run(py, |caller| {
            StudyFolder::read(&study, &traces, output.as_deref(), None, caller)?.jobs(caller)
        })?;
        Ok(StudyJobs(Mutex::new(Some(jobs))))
    }

    /// Splits the work into jobs of at most `most` units.
    fn split(&self, most: NonZeroUsize) -> PyResult<()> {
        self.with(|jobs| jobs.split(most))
    }

    fn __len__(&self) -> PyResult<usize> {
        self.with(|jobs| Ok(jobs.jobs().len()))
    }

    /// What a job is, for people, and its number of units.
    fn about(&self, number: usize) -> PyResult<(String, usize)> {
        self.with(|jobs| {
            let job = jobs.jobs().get(number).ok_or_else(no_job)?;
            Ok((job.title.clone(), job.units.len()))
        })
    }

    /// What `run_job` needs.
    fn parcel(&self, number: usize) -> PyResult<String> {
        self.with(|jobs| Ok(jobs.jobs().get(number).ok_or_else(no_job)?.parcel.clone()))
    }

    /// The trace file with this hash.
    fn trace(&self, hash: &str) -> PyResult<Option<PathBuf>> {
        self.with(|jobs| Ok(jobs.trace(hash).map(std::path::Path::to_owned)))
    }

    /// Keeps a job's units.
    fn keep(
        &self,
        py: Python<'_>,
        number: usize,
        worker: &str,
        units: BTreeMap<String, Vec<u8>>,
    ) -> PyResult<()> {
        py.detach(|| {
            self.with(|jobs| {
                jobs.jobs().get(number).ok_or_else(no_job)?;
                jobs.keep(number, worker, units)
            })
        })
    }

    /// Says in the folder who works on what.
    fn tell(&self, text: &str) -> PyResult<()> {
        self.with(|jobs| jobs.tell(text))
    }

    /// Gathers all results.
    fn finish(&self, py: Python<'_>) -> PyResult<(Document, PathBuf)> {
        let jobs = self.take().ok_or_else(|| exception(gathered()))?;
        let folder = jobs.folder().to_owned();
        let result = job::run(py, |caller| jobs.finish(caller))?;
        Ok((document(result), folder))
    }

    /// Lets go of the folder.
    fn close(&self) {
        drop(self.take());
    }
}

impl StudyJobs {
    fn take(&self) -> Option<study::StudyJobs> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn with<T>(&self, what: impl FnOnce(&mut study::StudyJobs) -> Result<T, Error>) -> PyResult<T> {
        let mut jobs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.as_mut().ok_or_else(gathered).and_then(what).map_err(exception)
    }
}

fn gathered() -> Error {
    Error::new(Fault::Usage, "the jobs are gathered already")
}

fn no_job() -> Error {
    Error::new(Fault::Usage, "there is no job of this number")
}

/// Units by the names of their files.
type PyUnits<'py> = HashMap<String, Bound<'py, PyBytes>>;

/// Runs a job in this process: its units, or the hashes of the traces that this process lacks.
#[pyfunction]
pub fn run_job<'py>(
    py: Python<'py>,
    parcel: &str,
    held: HashMap<String, PathBuf>,
    threads: NonZeroUsize,
) -> PyResult<(PyUnits<'py>, Vec<String>)> {
    match job::run(py, |caller| study::run_job(parcel, &held, threads, caller))? {
        JobEnd::Units(units) => {
            let bytes = |(name, text): (String, Vec<u8>)| (name, PyBytes::new(py, &text));
            Ok((units.into_iter().map(bytes).collect(), Vec::new()))
        }
        JobEnd::Lacks(traces) => Ok((HashMap::new(), traces)),
    }
}

/// Runs jobs on the workers of a Dask scheduler at `HOST:PORT`.
pub fn on_dask(
    jobs: study::StudyJobs,
    address: &str,
    threads: NonZeroUsize,
) -> Result<study::StudyJobs, Error> {
    Python::attach(|py| {
        let jobs = Py::new(py, StudyJobs(Mutex::new(Some(jobs))))?;
        let cluster = py.import("pagewalk.cluster")?;
        cluster.call_method1("run_on_dask", (&jobs, address, threads))?;
        jobs.get().take().ok_or_else(|| exception(gathered()))
    })
    .map_err(|error| Python::attach(|py| of_exception(py, &error)))
}
