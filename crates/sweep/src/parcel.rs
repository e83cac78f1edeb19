//! Jobs for processes elsewhere.
//!
//! A parcel has everything that a process of the same build needs to run a job: the study's files, what identifies the
//! traces, and the plans. The process keeps units in memory and sends them back, so it needs no folder.

use crate::build::Build;
use crate::error::SweepError;
use crate::jobs::{Claims, Job};
use crate::progress::Progress;
use crate::run::{Sweep, SweepOptions};
use crate::source::StudyFiles;
use crate::store::{Store, Units};
use crate::stream::Stream;
use crate::study::{Study, TraceSpec};
use pagewalk_mm::ThpMode;
use pagewalk_report::sweep::schema::SweepTrace;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// What a study is made from.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StudySource {
    /// Its files.
    pub files: StudyFiles,
    /// Traces that replace its streams; may be empty.
    pub traces: Vec<PathBuf>,
}

impl StudySource {
    /// The study, and what it leaves out because of the traces given.
    ///
    /// # Errors
    /// If a file is wrong, or the traces do not suit the study.
    pub fn study(&mut self) -> Result<(Study, Vec<String>), SweepError> {
        let study = self.files.study()?;
        if self.traces.is_empty() { Ok((study, Vec::new())) } else { study.on_traces(&self.traces) }
    }
}

/// A job with everything that another process needs to run it.
#[derive(Serialize, Deserialize)]
pub struct Parcel {
    /// The build that it is for.
    build: Build,
    /// What the study is made from, as JSON.
    source: String,
    /// The study's streams that the job needs; its own is the first.
    streams: Vec<SentStream>,
    /// The files of its own stream.
    files: Vec<TraceKey>,
    tasks: Vec<usize>,
    /// The kept plans that it needs.
    plans: Vec<(String, String)>,
}

/// The part of every build's parcels that any other can read.
#[derive(Deserialize)]
struct ParcelHead {
    build: Build,
}

/// A stream without its files.
#[derive(Clone, Serialize, Deserialize)]
struct SentStream {
    about: SweepTrace,
    bytes: u64,
    /// Of its files.
    hashes: Vec<String>,
    planned_as: Vec<usize>,
}

/// What identifies a trace file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceKey {
    /// Where the sender has it.
    pub path: PathBuf,
    /// Its BLAKE3 hash, in hex.
    pub hash: String,
}

/// A job to send.
pub struct SentJob {
    /// What it is, for people.
    pub title: String,
    /// The file names of its units.
    pub units: Vec<String>,
    /// Bytes of its stream.
    pub bytes: u64,
    /// The parcel, as text.
    pub parcel: String,
}

impl Sweep<'_> {
    /// The unfinished jobs in parts of at most `most` units, to be sent elsewhere. Plans must be made. `source` is what
    /// the study was made from.
    ///
    /// # Errors
    /// If a path is not UTF-8.
    pub fn sent_jobs(&self, source: &StudySource, most: NonZeroUsize) -> Result<Vec<SentJob>, SweepError> {
        let source = serde_json::to_string(source).map_err(|error| self.cannot_send(&error))?;
        let unfinished = self.unfinished_jobs().into_iter();
        let is_missing = |job: &Job, task: &usize| self.outcomes[job.stream][*task].is_none();
        let parts = unfinished.flat_map(|job| {
            let tasks: Vec<usize> = job.tasks.iter().copied().filter(|task| is_missing(&job, task)).collect();
            let part = |tasks: &[usize]| Job { stream: job.stream, tasks: tasks.to_vec() };
            tasks.chunks(most.get()).map(part).collect::<Vec<_>>()
        });
        parts.map(|job| self.sent_job(&job, &source)).collect()
    }

    fn sent_job(&self, job: &Job, source: &str) -> Result<SentJob, SweepError> {
        let own = &self.streams[job.stream];
        let requests = job.tasks.iter().flat_map(|&task| self.requests(job.stream, &self.tasks[task]));
        let names = requests.clone().map(|wanted| self.plan_key(&wanted).file_name());
        let names: BTreeSet<String> = names.collect();
        let plan =
            |name: String| Some((name.clone(), String::from_utf8(self.options.store.text(&name)?).ok()?));
        let others: BTreeSet<usize> =
            requests.map(|wanted| wanted.trace).filter(|&trace| trace != job.stream).collect();
        let streams = [job.stream].into_iter().chain(others).map(|number| &self.streams[number]);
        let files = own.files.iter().zip(&own.hashes);
        let parcel = Parcel {
            build: Build { version: self.options.version.to_owned(), tool: self.options.tool.clone() },
            source: source.to_owned(),
            streams: streams.map(SentStream::of).collect(),
            files: files
                .map(|(path, hash)| TraceKey {
                    path: std::path::absolute(path).unwrap_or_else(|_| path.clone()),
                    hash: hash.clone(),
                })
                .collect(),
            tasks: job.tasks.clone(),
            plans: names.into_iter().filter_map(plan).collect(),
        };
        let unit = |&task: &usize| self.key(job.stream, task).map(|key| key.file_name());
        Ok(SentJob {
            title: self.title(job),
            units: job.tasks.iter().filter_map(unit).collect(),
            bytes: own.bytes,
            parcel: serde_json::to_string(&parcel).map_err(|error| self.cannot_send(&error))?,
        })
    }

    fn cannot_send(&self, error: &serde_json::Error) -> SweepError {
        SweepError::Study { file: self.study.file.clone(), why: format!("it cannot be sent: {error}") }
    }
}

impl SentStream {
    fn of(stream: &Stream) -> SentStream {
        let Stream { about, bytes, hashes, planned_as, .. } = stream.clone();
        SentStream { about, bytes, hashes, planned_as }
    }
}

impl Parcel {
    /// Reads a parcel that is for `own`.
    ///
    /// # Errors
    /// If it is for another build, or no parcel.
    pub fn read(text: &str, own: &Build) -> Result<Parcel, SweepError> {
        let ParcelHead { build } = serde_json::from_str(text).map_err(no_job)?;
        if build != *own {
            return Err(SweepError::Build { study: build, worker: own.clone() });
        }
        serde_json::from_str(text).map_err(no_job)
    }

    /// The trace files that it reads.
    pub fn files(&self) -> &[TraceKey] {
        &self.files
    }

    /// Runs the job over `files`, which hold what its trace files do, on this many threads; returns its units.
    ///
    /// # Errors
    /// If a trace cannot be read, or the study is not the one that was sent.
    pub fn run(
        self,
        files: Vec<PathBuf>,
        threads: usize,
        progress: &dyn Progress,
    ) -> Result<Units, SweepError> {
        let name = |stream: &SentStream| stream.about.name.clone();
        let study = sent_study(&self.source, self.streams.iter().map(name).collect())?;
        let wrong = |why: &str| SweepError::Study { file: study.file.clone(), why: format!("a job: {why}") };
        let own = self.streams.first().map(name).ok_or_else(|| wrong("it has no stream"))?;
        let streams: Option<Vec<Stream>> =
            study.traces.iter().map(|spec| self.stream(spec, &files)).collect();
        let streams = streams.ok_or_else(|| wrong("its streams are not the study's"))?;
        let stream = study.traces.iter().position(|spec| spec.name() == own);
        let stream = stream.ok_or_else(|| wrong("its stream is not in the study"))?;
        let plans: Units = self.plans.into_iter().map(|(name, text)| (name, text.into_bytes())).collect();
        let sent_plans: Vec<String> = plans.keys().cloned().collect();
        let options = SweepOptions {
            version: &self.build.version,
            tool: self.build.tool.clone(),
            threads,
            store: Store::in_memory(plans),
            // Only the sender makes plans and claims.
            plans: PathBuf::new(),
            claims: Claims::new(PathBuf::new()),
        };
        let sweep = Sweep::without_outcomes(&study, streams, options);
        if self.tasks.iter().any(|&task| sweep.tasks.get(task).is_none() || sweep.key(stream, task).is_none())
        {
            return Err(wrong("its units are not the study's"));
        }
        sweep.run_job(&Job { stream, tasks: self.tasks }, &sweep.pool()?, progress)?;
        let mut units = sweep.options.store.into_units();
        sent_plans.iter().for_each(|plan| drop(units.remove(plan)));
        Ok(units)
    }

    /// A stream that was sent, with `files` if it is the job's own.
    fn stream(&self, spec: &TraceSpec, files: &[PathBuf]) -> Option<Stream> {
        let number = self.streams.iter().position(|stream| stream.about.name == spec.name())?;
        let SentStream { about, bytes, hashes, planned_as } = self.streams[number].clone();
        let is_whole = hashes.len() == planned_as.len() && planned_as.iter().all(|&of| of < hashes.len());
        if hashes.is_empty() || !is_whole {
            return None;
        }
        let is_own = number == 0;
        Some(Stream {
            files: if is_own { files.to_vec() } else { Vec::new() },
            hashes,
            planned_as,
            sharing: spec.sharing().cloned(),
            bytes,
            thp: ThpMode::from_name(&about.thp)?,
            about,
        })
    }
}

/// A study that was sent, and its parts with only some of its traces.
struct SentStudy {
    source: String,
    whole: Study,
    parts: Vec<(BTreeSet<String>, Arc<Study>)>,
}

/// The study of a parcel, with only these traces. A process mostly gets jobs of one study, and reading or copying it
/// may take longer than a job.
fn sent_study(source: &str, traces: BTreeSet<String>) -> Result<Arc<Study>, SweepError> {
    static LAST: Mutex<Option<SentStudy>> = Mutex::new(None);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if last.as_ref().is_none_or(|last| last.source != source) {
        let mut sent: StudySource = serde_json::from_str(source).map_err(no_job)?;
        *last = Some(SentStudy { whole: sent.study()?.0, source: source.to_owned(), parts: Vec::new() });
    }
    let SentStudy { whole, parts, .. } = last.as_mut().expect("it was just read");
    if let Some((_, part)) = parts.iter().find(|(known, _)| *known == traces) {
        return Ok(Arc::clone(part));
    }
    let mut part = whole.clone();
    part.traces.retain(|spec| traces.contains(spec.name()));
    let part = Arc::new(part);
    parts.push((traces, Arc::clone(&part)));
    Ok(part)
}

fn no_job(error: serde_json::Error) -> SweepError {
    SweepError::Study { file: "a job".to_owned(), why: error.to_string() }
}
