//! Runs a study: many machines, families and curves over many streams, in a folder that keeps finished work.

mod status;
mod workers;
mod workload;

pub use status::status;

use crate::error::{Error, Fault};
use crate::folders::own_file;
use crate::listener::{Bar, Listener};
use crate::traces::TRACE_SOURCES;
use pagewalk_report::sweep::{self, SweepResult};
use pagewalk_sweep::{
    Claim, Claims, Progress, Study, Sweep, SweepError, SweepOptions, TraceSpec, UNFINISHED, Workload,
    write_whole,
};
use std::ffi::OsStr;
use std::fmt::Write;
use std::fs::File;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A study, and the folder for its results.
pub struct StudyFolder {
    study: Study,
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
        let mut study = Study::read(file).map_err(study_error)?;
        if !traces.is_empty() {
            let (of_traces, left_out) = study.on_traces(traces).map_err(study_error)?;
            left_out.iter().for_each(|one| listener.note(&format!("left out with --traces: {one}")));
            study = of_traces;
        }
        let folder = folder.map_or_else(|| format!("{}.sweep", study.name).into(), Path::to_owned);
        Ok(StudyFolder { study, file: file.to_owned(), folder, threads })
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
        std::fs::create_dir_all(&self.folder).map_err(|error| {
            Error::new(Fault::Failed, format!("cannot write {}: {error}", self.folder.display()))
                .or("choose another place with -o")
        })?;
        let options = self.options()?;
        // Held to the end of this run.
        let _membership =
            workers::join(&self.folder, &self.identity(&options.tool)?, || clear(&self.folder))?;
        let traces = self.traces(&options.claims, listener)?;
        let mut sweep = Sweep::new(&self.study, &traces, options).map_err(study_error)?;
        let bar = Bytes(listener.bytes(sweep.bytes(), &self.study.name));
        sweep.plan(&bar).map_err(study_error)?;
        status::write_work(&self.folder, &self.study.name, sweep.units())?;
        let result = sweep.run(&bar).map_err(study_error)?;
        self.write(&result)?;
        Ok(result)
    }

    /// Where to put results, and which build this is.
    fn options(&self) -> Result<SweepOptions<'static>, Error> {
        let mut own = blake3::Hasher::new();
        let read = own_file().and_then(File::open).and_then(|file| own.update_reader(file).map(drop));
        read.map_err(|e| Error::new(Fault::Failed, format!("reading the program itself: {e}")))?;
        let threads = match self.threads {
            Some(threads) => threads.get(),
            None => std::thread::available_parallelism().map_or(1, usize::from),
        };
        Ok(SweepOptions {
            version: env!("CARGO_PKG_VERSION"),
            // Outcomes of another build do not count for this one.
            tool: own.finalize().to_hex().to_string(),
            threads,
            units: self.folder.join(UNITS),
            plans: self.folder.join("plans"),
            claims: Claims::new(self.folder.join(CLAIMS)),
        })
    }

    /// What all workers of a folder must have in common.
    fn identity(&self, tool: &str) -> Result<workers::Identity, Error> {
        let text = std::fs::read(&self.file)
            .map_err(|e| Error::new(Fault::BadInput, format!("{}: {e}", self.file.display())))?;
        let mut study = blake3::Hasher::new();
        // The identity has the machines, kernels and structures, whose files the text only names.
        study.update(&text).update(self.study.identity().as_bytes());
        for spec in &self.study.traces {
            study.update(spec.name().as_bytes()).update(b"\n");
        }
        Ok(workers::Identity {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            tool: tool.to_owned(),
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
    pub fn outline(&self) -> Result<String, Error> {
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
        let sweep = Sweep::new(&kept, &files, self.options()?).map_err(study_error)?;
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
    let plans = std::fs::read_dir(folder.join("plans")).into_iter().flatten().flatten();
    let places = ["", UNITS, "traces", "pictures"].map(|place| folder.join(place));
    for place in places.into_iter().chain(plans.map(|of_trace| of_trace.path())) {
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

/// The error of a study, with its fault and what to do next.
fn study_error(error: SweepError) -> Error {
    match error {
        SweepError::Study { .. } => Error::new(Fault::BadInput, error)
            .or("docs/reference/study-files.md explains every key of a study file"),
        SweepError::Trace { .. } => Error::new(Fault::BadInput, error).or(TRACE_SOURCES),
        SweepError::Folder { .. } | SweepError::Stopped | SweepError::Threads(_) => {
            Error::new(Fault::Failed, error)
        }
    }
}

/// Reports decoded bytes to a listener.
struct Bytes(Arc<dyn Bar>);

impl Progress for Bytes {
    fn bytes(&self, bytes: u64) {
        self.0.advance(bytes);
    }

    fn is_stopped(&self) -> bool {
        self.0.is_stopped()
    }
}
