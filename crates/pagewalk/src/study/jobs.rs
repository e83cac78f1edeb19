//! A study's jobs for workers elsewhere, which share nothing with this process.

use super::{Bytes, CLAIMS, StudyFolder, UNITS, own_build, streams, study_error, unless_stopped, workers};
use crate::error::{Error, Fault};
use crate::listener::{Bar, CountingReader, Listener};
use pagewalk_report::sweep::SweepResult;
use pagewalk_sweep::{
    Claim, Claims, JOB_TASKS, Parcel, Progress, SentJob, Store, Stream, Sweep, SweepError, TraceKey, Units,
};
use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io;
use std::num::NonZeroUsize;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Most units of a job, unless asked otherwise.
const JOB_UNITS: NonZeroUsize = NonZeroUsize::new(JOB_TASKS).expect("a job has tasks");

/// The jobs of a study that are not done, and the place where their units are kept.
pub struct StudyJobs {
    study: StudyFolder,
    streams: Vec<Stream>,
    jobs: Vec<SentJob>,
    store: Store,
    claims: Claims,
    claim: Option<Claim>,
    bar: Arc<dyn Bar>,
    _membership: workers::Membership,
}

impl StudyFolder {
    /// Records programs and makes plans, here, and lists the jobs that remain ([`StudyJobs::split`]).
    ///
    /// # Errors
    /// As for [`StudyFolder::run`].
    pub fn jobs(self, listener: &dyn Listener) -> Result<StudyJobs, Error> {
        let membership = self.join()?;
        let options = self.options()?;
        let traces = self.traces(&options.claims, listener)?;
        let streams = streams(&self.study, &traces, listener)?;
        let mut sweep = Sweep::new(&self.study, streams.clone(), options);
        let bar = listener.bytes(sweep.bytes(), &self.study.name);
        self.plan(&mut sweep, &Bytes(Arc::clone(&bar)))?;
        let jobs = sweep.sent_jobs(&self.source, JOB_UNITS).map_err(study_error)?;
        let [store, claims] = [UNITS, CLAIMS].map(|name| self.folder.join(name));
        Ok(StudyJobs {
            streams,
            jobs,
            store: Store::Folder(store),
            claims: Claims::new(claims),
            claim: None,
            bar,
            _membership: membership,
            study: self,
        })
    }
}

impl StudyJobs {
    /// The jobs.
    pub fn jobs(&self) -> &[SentJob] {
        &self.jobs
    }

    /// Lists the jobs that remain, with at most `most` units each.
    ///
    /// # Errors
    /// If a path is not UTF-8.
    pub fn split(&mut self, most: NonZeroUsize) -> Result<(), Error> {
        let study = &self.study;
        let sweep = Sweep::new(&study.study, self.streams.clone(), study.options()?);
        self.jobs = sweep.sent_jobs(&study.source, most).map_err(study_error)?;
        Ok(())
    }

    /// Where results go.
    pub fn folder(&self) -> &Path {
        &self.study.folder
    }

    /// The trace file with this hash.
    pub fn trace(&self, hash: &str) -> Option<&Path> {
        let files = self.streams.iter().flat_map(|stream| stream.hashes.iter().zip(&stream.files));
        files.into_iter().find(|(known, _)| *known == hash).map(|(_, path)| path.as_path())
    }

    /// Keeps the units that `worker` made of the job of this number.
    ///
    /// # Errors
    /// If they are not the job's, or cannot be written.
    pub fn keep(&self, number: usize, worker: &str, units: Units) -> Result<(), Error> {
        let SentJob { title, units: expected, bytes, .. } = &self.jobs[number];
        let wrong = |why: &str| Error::new(Fault::Failed, format!("{title}: worker {worker} {why}"));
        if !expected.iter().all(|name| units.contains_key(name)) {
            return Err(wrong("did not send all units"));
        }
        for (name, text) in units {
            if !expected.contains(&name) || !self.store.accept(&name, text).map_err(study_error)? {
                return Err(wrong("sent what is not a unit of the job"));
            }
        }
        self.bar.advance(*bytes);
        Ok(())
    }

    /// Says in the folder, for `sweep --status`, who works on what.
    ///
    /// # Errors
    /// If the folder cannot be written to.
    pub fn tell(&mut self, text: &str) -> Result<(), Error> {
        self.claim = None;
        let name = format!("elsewhere-{}", std::process::id());
        self.claim = self.claims.claim(&name, text).map_err(study_error)?;
        Ok(())
    }

    /// Gathers all results. What no worker did is done here.
    ///
    /// # Errors
    /// As for [`StudyFolder::run`].
    pub fn finish(mut self, listener: &dyn Listener) -> Result<SweepResult, Error> {
        self.claim = None;
        self.study.finish(self.streams, self.study.options()?, listener)
    }
}

/// How a job ended on a worker.
pub enum JobEnd {
    /// With these units.
    Units(Units),
    /// The worker lacks the traces with these hashes.
    Lacks(Vec<String>),
}

/// Runs a job that [`StudyJobs`] lists, in whatever process of the same build, on this many threads. Traces are found
/// where the sender has them, or where `held` says by their hash.
///
/// # Errors
/// If the job is of another build, or a trace cannot be read.
pub fn run_job(
    parcel: &str,
    held: &HashMap<String, PathBuf>,
    threads: NonZeroUsize,
    listener: &dyn Listener,
) -> Result<JobEnd, Error> {
    let parcel = Parcel::read(parcel, &own_build()?).map_err(study_error)?;
    let bar = listener.bytes(0, "a job");
    let find = |key: &TraceKey| {
        let places = [Some(&key.path), held.get(&key.hash)];
        places.into_iter().flatten().find(|path| hash(path, &bar).is_ok_and(|hash| hash == key.hash)).cloned()
    };
    let found: Vec<Option<PathBuf>> = parcel.files().iter().map(find).collect();
    let lacks = parcel.files().iter().zip(&found).filter(|(_, found)| found.is_none());
    let lacks: Vec<String> = lacks.map(|(key, _)| key.hash.clone()).collect();
    if bar.is_stopped() {
        return Err(study_error(SweepError::Stopped));
    }
    if !lacks.is_empty() {
        return Ok(JobEnd::Lacks(lacks));
    }
    let stop = StopOnly(bar);
    let files = found.into_iter().flatten().collect();
    let ran = parcel.run(files, threads.get(), &stop);
    ran.map(JobEnd::Units).map_err(|error| unless_stopped(&stop, error))
}

/// Reports no progress.
struct StopOnly(Arc<dyn Bar>);

impl Progress for StopOnly {
    fn bytes(&self, _: u64) {}

    fn is_stopped(&self) -> bool {
        self.0.is_stopped()
    }
}

/// What tells whether a file is the one that was read before.
type FileStamp = (u64, u64, u64, i64, i64);

/// The BLAKE3 hash of a file, in hex. A file that did not change is read once.
fn hash(path: &Path, bar: &Arc<dyn Bar>) -> io::Result<String> {
    static KNOWN: Mutex<Option<HashMap<FileStamp, String>>> = Mutex::new(None);
    let file = File::open(path)?;
    let stamp = stamp(&file.metadata()?);
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(hash) = known().get_or_insert_default().get(&stamp) {
        return Ok(hash.clone());
    }
    let file = CountingReader::new(file, Arc::clone(bar));
    let hash = blake3::Hasher::new().update_reader(file)?.finalize().to_hex().to_string();
    known().get_or_insert_default().insert(stamp, hash.clone());
    Ok(hash)
}

fn stamp(about: &Metadata) -> FileStamp {
    (about.dev(), about.ino(), about.len(), about.mtime(), about.mtime_nsec())
}
