//! Runs a study: many machines, families and curves over many streams, in a folder that keeps finished work.

mod jobs;
mod place;
mod status;
mod workers;
mod workload;

pub use jobs::{JobEnd, StudyJobs, run_job};
pub use place::Place;
pub use status::status;

use crate::error::{Error, Fault};
use crate::folders::own_hash;
use crate::listener::{Bar, Listener};
use crate::traces::TRACE_SOURCES;
use pagewalk_report::sweep::{self, SweepResult};
use pagewalk_sweep::{
    Build, Claim, Claims, Progress, Store, Stream, Study, StudyFiles, StudySource, Sweep, SweepError,
    SweepOptions, TraceSpec, UNFINISHED, Workload, write_whole,
};
use std::ffi::OsStr;
use std::fmt::Write;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A study, and the folder for its results.
pub struct StudyFolder {
    study: Study,
    source: StudySource,
    /// The study's file; its workloads get its folder.
    file: PathBuf,
    folder: PathBuf,
    threads: Option<NonZeroUsize>,
}

impl StudyFolder {
    /// Reads the study in `file`. If `traces` are given, they replace its programs; what that leaves out is noted.
    /// Results go to `folder`, or to one named after the study. Works on `threads` threads, or one for each processor.
    ///
    /// # Errors
    /// If the file is no study, or does not suit such traces.
    pub fn read(
        file: &Path,
        traces: &[PathBuf],
        folder: Option<&Path>,
        threads: Option<NonZeroUsize>,
        listener: &dyn Listener,
    ) -> Result<StudyFolder, Error> {
        let mut source = StudySource { files: StudyFiles::at(file), traces: traces.to_vec() };
        let (study, left_out) = source.study().map_err(study_error)?;
        left_out.iter().for_each(|one| listener.note(&format!("left out with --traces: {one}")));
        let folder = folder.map_or_else(|| format!("{}.sweep", study.name).into(), Path::to_owned);
        Ok(StudyFolder { study, source, file: file.to_owned(), folder, threads })
    }

    /// Where results go.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Runs unfinished work, and writes all results to the folder. Several processes, also on several hosts, may do so
    /// at the same time: they share the work.
    ///
    /// # Errors
    /// If another study or another build is at work in the folder, a program cannot be recorded, a trace cannot be
    /// read, or a file cannot be written.
    pub fn run(&self, listener: &dyn Listener) -> Result<SweepResult, Error> {
        let _membership = self.join()?;
        let options = self.options()?;
        let traces = self.traces(&options.claims, listener)?;
        let streams = streams(&self.study, &traces, listener)?;
        self.finish(streams, options, listener)
    }

    /// Runs unfinished work over these streams, and writes all results.
    fn finish(
        &self,
        streams: Vec<Stream>,
        options: SweepOptions<'_>,
        listener: &dyn Listener,
    ) -> Result<SweepResult, Error> {
        let mut sweep = Sweep::new(&self.study, streams, options);
        let bar = Bytes(listener.bytes(sweep.bytes(), &self.study.name));
        self.plan(&mut sweep, &bar)?;
        let result = sweep.run(&bar).map_err(|error| unless_stopped(&bar, error))?;
        self.write(&result)?;
        Ok(result)
    }

    /// Makes plans, and lists the work for [`status`].
    fn plan(&self, sweep: &mut Sweep<'_>, bar: &Bytes) -> Result<(), Error> {
        sweep.plan(bar).map_err(|error| unless_stopped(bar, error))?;
        status::write_work(&self.folder, &self.study.name, sweep.units())
    }

    /// Joins those who work in the folder, to the end of the membership.
    fn join(&self) -> Result<workers::Membership, Error> {
        std::fs::create_dir_all(&self.folder).map_err(|error| {
            Error::new(Fault::Failed, format!("cannot write {}: {error}", self.folder.display()))
                .or("choose another place with -o")
        })?;
        workers::join(&self.folder, &self.identity()?, || clear(&self.folder))
    }

    /// Where to put results, and which build this is.
    fn options(&self) -> Result<SweepOptions<'static>, Error> {
        let Build { tool, .. } = own_build()?;
        let threads = match self.threads {
            Some(threads) => threads.get(),
            None => std::thread::available_parallelism().map_or(1, usize::from),
        };
        Ok(SweepOptions {
            version: env!("CARGO_PKG_VERSION"),
            // Outcomes of another build do not count for this one.
            tool,
            threads,
            store: Store::Folder(self.folder.join(UNITS)),
            plans: self.folder.join("plans"),
            claims: Claims::new(self.folder.join(CLAIMS)),
        })
    }

    /// What all workers of a folder must have in common.
    fn identity(&self) -> Result<workers::Identity, Error> {
        let text = std::fs::read(&self.file)
            .map_err(|e| Error::new(Fault::BadInput, format!("{}: {e}", self.file.display())))?;
        let mut study = blake3::Hasher::new();
        // The identity has the machines, kernels and structures, whose files the text only names.
        study.update(&text).update(self.study.identity().as_bytes());
        for spec in &self.study.traces {
            study.update(spec.name().as_bytes()).update(b"\n");
        }
        Ok(workers::Identity {
            build: own_build()?,
            name: self.study.name.clone(),
            study: study.finalize().to_hex().to_string(),
        })
    }

    /// The trace files, in the study's order; records programs that have none yet.
    fn traces(&self, claims: &Claims, listener: &dyn Listener) -> Result<Vec<Vec<PathBuf>>, Error> {
        let trace = |spec: &TraceSpec| match spec {
            TraceSpec::File { path, .. } => Ok(vec![path.clone()]),
            TraceSpec::Together { paths, .. } => Ok(paths.clone()),
            TraceSpec::Workload(workload) => {
                let path = workload::trace_path(workload, &self.folder.join("traces"));
                let _claim = match path.exists() {
                    true => None,
                    false => Some(claim_recording(claims, workload, listener)?),
                };
                if !path.exists() {
                    if listener.bytes(0, &workload.name).is_stopped() {
                        return Err(study_error(SweepError::Stopped));
                    }
                    let command = command_line(&workload.command);
                    listener.note(&format!("recording `{}`: {command}", workload.name));
                    let study = std::path::absolute(&self.file).unwrap_or_default();
                    workload::record(workload, study.parent().unwrap_or(Path::new("/")), &path, listener)?;
                }
                workload::files(workload, &path)
            }
        };
        self.study.traces.iter().map(trace).collect()
    }

    /// What would run, as text; runs nothing.
    ///
    /// # Errors
    /// If a trace cannot be read.
    pub fn outline(&self, listener: &dyn Listener) -> Result<String, Error> {
        let mut out = String::new();
        let mut kept = self.study.clone();
        let mut files = Vec::new();
        let mut failed = None;
        kept.traces.retain(|spec| match spec {
            TraceSpec::File { path, .. } => {
                files.push(vec![path.clone()]);
                true
            }
            TraceSpec::Together { paths, .. } => {
                files.push(paths.clone());
                true
            }
            TraceSpec::Workload(workload) => {
                let path = workload::trace_path(workload, &self.folder.join("traces"));
                let is_there = path.exists();
                if is_there {
                    match workload::files(workload, &path) {
                        Ok(found) => files.push(found),
                        Err(error) => failed = Some(error),
                    }
                } else {
                    let line = command_line(&workload.command);
                    let _ = writeln!(
                        out,
                        "record `{}`: {line}\n  then all that the study asks for",
                        workload.name
                    );
                }
                is_there
            }
        });
        if let Some(error) = failed {
            return Err(error);
        }
        // Plans of unrecorded programs come after their recording.
        let is_there = |name: &String| kept.traces.iter().any(|spec| spec.name() == name);
        kept.layouts.retain(|layout| layout.from.iter().all(is_there));
        let streams = streams(&kept, &files, listener)?;
        let sweep = Sweep::new(&kept, streams, self.options()?);
        for one in sweep.remaining() {
            let of = one.done + one.tasks.len();
            let _ =
                writeln!(out, "{}: {} of {of} done before, to do: {}", one.trace, one.done, one.tasks.len());
            one.tasks.iter().for_each(|task| out += &format!("  {task}\n"));
        }
        let _ = writeln!(out, "results would go to {}", self.folder.display());
        Ok(out)
    }

    fn write(&self, result: &SweepResult) -> Result<(), Error> {
        let failed =
            |e: &dyn std::fmt::Display| Error::new(Fault::Failed, format!("making results.parquet: {e}"));
        let parquet = sweep::to_parquet(result).map_err(|e| failed(&e))?;
        let json = sweep::to_json(result);
        let page = sweep::render_html(result);
        let files = [
            ("results.parquet", &parquet[..]),
            ("results.json", json.as_bytes()),
            ("index.html", page.as_bytes()),
        ];
        for (name, bytes) in files {
            write_whole(&self.folder.join(name), bytes).map_err(study_error)?;
        }
        for picture in sweep::pictures(result) {
            let path = self.folder.join("pictures").join(picture.name);
            write_whole(&path, picture.svg.as_bytes()).map_err(study_error)?;
        }
        Ok(())
    }
}

/// Examines the streams of a study, given their files.
fn streams(study: &Study, files: &[Vec<PathBuf>], listener: &dyn Listener) -> Result<Vec<Stream>, Error> {
    let bytes = files.iter().flatten().filter_map(|path| path.metadata().ok()).map(|about| about.len());
    let bar = Bytes(listener.bytes(bytes.sum(), "hashes of traces"));
    Stream::all(study, files, &bar).map_err(|error| unless_stopped(&bar, error))
}

/// Claims the recording of a workload. Another process may be recording it: waits for that.
fn claim_recording(claims: &Claims, workload: &Workload, listener: &dyn Listener) -> Result<Claim, Error> {
    let name = format!("record-{}", workload.name);
    let title = format!("recording {}", workload.name);
    if let Some(claim) = claims.claim(&name, &title).map_err(study_error)? {
        return Ok(claim);
    }
    listener.note(&format!("waiting while another process records `{}`", workload.name));
    let bar = listener.bytes(0, &title);
    claims.wait(&name, &title, || bar.is_stopped()).map_err(study_error)
}

/// This build.
fn own_build() -> Result<Build, Error> {
    let failed = |e| Error::new(Fault::Failed, format!("reading the program itself: {e}"));
    let tool = own_hash().map_err(failed)?.to_owned();
    Ok(Build { version: env!("CARGO_PKG_VERSION").to_owned(), tool })
}

/// Checks the findings that must hold.
///
/// # Errors
/// The titles of those that do not.
pub fn check_findings(result: &SweepResult) -> Result<(), Error> {
    let failing = result.comparisons.iter().filter(|comparison| comparison.strict && !comparison.agrees);
    match failing.map(|comparison| format!("\"{}\"", comparison.title)).collect::<Vec<_>>() {
        none if none.is_empty() => Ok(()),
        titles => Err(Error::new(
            Fault::Failed,
            format!("{} of the findings that must hold do not: {}", titles.len(), titles.join(", ")),
        )),
    }
}

/// The folder of finished units.
const UNITS: &str = "units";
/// The folder of claims.
const CLAIMS: &str = "claims";

/// Removes claims and unfinished files of killed runs; nobody else works here now.
fn clear(folder: &Path) {
    let _ = std::fs::remove_dir_all(folder.join(CLAIMS));
    let _ = std::fs::remove_file(folder.join(status::WORK));
    let inside = |place: PathBuf| {
        let entries = std::fs::read_dir(place).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let of_traces = inside(folder.join("plans"));
    let of_processes = of_traces.clone().into_iter().flat_map(inside);
    let places = ["", UNITS, "traces", "pictures"].map(|place| folder.join(place));
    for place in places.into_iter().chain(of_traces).chain(of_processes) {
        let entries = std::fs::read_dir(place).into_iter().flatten().flatten();
        for path in entries.filter(|entry| is_unfinished(&entry.file_name())).map(|entry| entry.path()) {
            // A leftover does no harm.
            let _ = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
        }
    }
}

/// Whether the name marks an unfinished file or folder.
fn is_unfinished(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(UNFINISHED.as_bytes())
}

/// A command in one short line.
fn command_line(command: &[String]) -> String {
    let line = command.join(" ").replace('\n', " ");
    if line.chars().count() <= 80 { line } else { line.chars().take(79).chain(['…']).collect() }
}

/// What to do after a stop.
const GOES_ON: &str = "what is done is kept: the same command goes on with the rest";

/// The error of a study, with its fault and what to do next.
fn study_error(error: SweepError) -> Error {
    match error {
        SweepError::Study { ref file, .. } if !Path::new(file).exists() => {
            Error::of_file(Path::new(file), &error)
        }
        SweepError::Study { .. } => Error::new(Fault::BadInput, error)
            .or("docs/reference/study-files.md explains every key of a study file"),
        SweepError::Trace { .. } => Error::new(Fault::BadInput, error).or(TRACE_SOURCES),
        SweepError::Build { .. } => Error::new(Fault::Failed, error).or("install one build on all hosts"),
        SweepError::Stopped => Error::new(Fault::Failed, error).or(GOES_ON),
        SweepError::Folder { .. } | SweepError::Threads(_) => Error::new(Fault::Failed, error),
    }
}

/// Reports decoded bytes to a listener.
struct Bytes(Arc<dyn Bar>);

/// The error of work with this progress: once it is stopped, traces cannot be read.
fn unless_stopped(progress: &dyn Progress, error: SweepError) -> Error {
    study_error(if progress.is_stopped() { SweepError::Stopped } else { error })
}

impl Progress for Bytes {
    fn bytes(&self, bytes: u64) {
        self.0.advance(bytes);
    }

    fn is_stopped(&self) -> bool {
        self.0.is_stopped()
    }
}
