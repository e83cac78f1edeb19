//! `pagewalk sweep`: a study of many machines, families and curves over many streams.

use crate::arguments::Sweep as Arguments;
use crate::error::{CliError, Code};
use crate::output::{print, say, text_options};
use crate::progress;
use crate::workload;
use indicatif::ProgressBar;
use pagewalk_report::sweep::{self, SweepResult};
use pagewalk_sweep::{Options, Progress, Study, Sweep, SweepError, TraceSpec, UNFINISHED, write_whole};
use std::ffi::OsStr;
use std::fmt::Write;
use std::fs::{File, TryLockError};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub fn run(arguments: Arguments) -> Result<ExitCode, CliError> {
    let study = study(&arguments)?;
    let folder = arguments.output.clone().unwrap_or_else(|| format!("{}.sweep", study.name).into());
    if arguments.dry_run {
        return dry_run(&arguments, &study, &folder);
    }
    std::fs::create_dir_all(&folder).map_err(|error| {
        CliError::new(Code::Failed, format!("cannot write {}: {error}", folder.display()))
            .or("choose another place with -o")
    })?;
    // Held to the end of this run.
    let _lock = lock(&folder)?;
    clear(&folder);
    let traces = traces(&arguments, &study, &folder)?;
    let sweep = Sweep::new(&study, &traces, options(&arguments, &folder)?).map_err(told)?;
    let remaining = sweep.remaining();
    let bytes = remaining.iter().filter(|one| !one.tasks.is_empty()).map(|one| one.bytes).sum();
    let bar = Bar(progress::bytes(bytes, &study.name, arguments.style.quiet));
    let result = sweep.run(&bar).map_err(told)?;
    bar.0.finish_and_clear();
    publish(&arguments, &folder, &result)?;
    let failing = result.comparisons.iter().filter(|comparison| comparison.strict && !comparison.agrees);
    match failing.map(|comparison| format!("\"{}\"", comparison.title)).collect::<Vec<_>>() {
        none if none.is_empty() => Ok(ExitCode::SUCCESS),
        titles => Err(CliError::new(
            Code::Failed,
            format!("{} of the findings that must hold do not: {}", titles.len(), titles.join(", ")),
        )),
    }
}

/// The study, of the programs that are asked for.
fn study(arguments: &Arguments) -> Result<Study, CliError> {
    let study = Study::read(&arguments.study).map_err(told)?;
    if arguments.traces.is_empty() {
        return Ok(study);
    }
    let (study, left_out) = study.on_traces(&arguments.traces).map_err(told)?;
    if !arguments.style.quiet {
        left_out.iter().for_each(|one| say(format!("left out with --traces: {one}")));
    }
    Ok(study)
}

/// Sees to it that no other run works in the folder at the same time.
fn lock(folder: &Path) -> Result<File, CliError> {
    let path = folder.join(".lock");
    let failed =
        |e: &std::io::Error| CliError::new(Code::Failed, format!("cannot lock {}: {e}", path.display()));
    let file = File::create(&path).map_err(|e| failed(&e))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            let why = format!("another study is at work in {}", folder.display());
            Err(CliError::new(Code::Failed, why).or("wait for it, or choose another place with -o"))
        }
        Err(TryLockError::Error(error)) => Err(failed(&error)),
    }
}

/// Removes what runs that were killed had begun to write: nobody else works here now.
fn clear(folder: &Path) {
    let plans = std::fs::read_dir(folder.join("plans")).into_iter().flatten().flatten();
    let places = ["", "units", "traces", "pictures"].map(|place| folder.join(place));
    for place in places.into_iter().chain(plans.map(|of_trace| of_trace.path())) {
        let entries = std::fs::read_dir(place).into_iter().flatten().flatten();
        for path in entries.filter(|entry| is_unfinished(&entry.file_name())).map(|entry| entry.path()) {
            // What cannot be removed is only in the way of nobody.
            let _ = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
        }
    }
}

/// Whether the name is one that files and folders have before they are whole.
fn is_unfinished(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(UNFINISHED.as_bytes())
}

/// Where to put what, and which program this is.
fn options(arguments: &Arguments, folder: &Path) -> Result<Options<'static>, CliError> {
    let mut own = blake3::Hasher::new();
    let read =
        std::env::current_exe().and_then(File::open).and_then(|file| own.update_reader(file).map(drop));
    read.map_err(|e| CliError::new(Code::Failed, format!("reading the program itself: {e}")))?;
    let threads = match arguments.threads {
        Some(threads) => threads.get(),
        None => std::thread::available_parallelism().map_or(1, usize::from),
    };
    Ok(Options {
        version: env!("CARGO_PKG_VERSION"),
        // Outcomes of a program that was built from other sources are none of this one's.
        tool: own.finalize().to_hex().to_string(),
        threads,
        units: folder.join("units"),
        plans: folder.join("plans"),
    })
}

/// The trace files, in the study's order; programs that have none yet are recorded now.
fn traces(arguments: &Arguments, study: &Study, folder: &Path) -> Result<Vec<Vec<PathBuf>>, CliError> {
    let trace = |spec: &TraceSpec| match spec {
        TraceSpec::File { path, .. } => Ok(vec![path.clone()]),
        TraceSpec::Together { paths, .. } => Ok(paths.clone()),
        TraceSpec::Workload(workload) => {
            let path = workload::trace_path(workload, &folder.join("traces"));
            if !path.exists() {
                if !arguments.style.quiet {
                    say(format!("recording `{}`: {}", workload.name, command_line(&workload.command)));
                }
                let study = std::path::absolute(&arguments.study).unwrap_or_default();
                workload::record(workload, study.parent().unwrap_or(Path::new("/")), &path)?;
            }
            workload::files(workload, &path)
        }
    };
    study.traces.iter().map(trace).collect()
}

/// A command in one short line.
fn command_line(command: &[String]) -> String {
    let line = command.join(" ").replace('\n', " ");
    if line.chars().count() <= 80 { line } else { line.chars().take(79).chain(['…']).collect() }
}

fn dry_run(arguments: &Arguments, study: &Study, folder: &Path) -> Result<ExitCode, CliError> {
    let mut out = String::new();
    let mut kept = study.clone();
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
            let path = workload::trace_path(workload, &folder.join("traces"));
            let is_there = path.exists();
            if is_there {
                match workload::files(workload, &path) {
                    Ok(found) => files.push(found),
                    Err(error) => failed = Some(error),
                }
            } else {
                let line = command_line(&workload.command);
                let _ =
                    writeln!(out, "record `{}`: {line}\n  then all that the study asks for", workload.name);
            }
            is_there
        }
    });
    if let Some(error) = failed {
        return Err(error);
    }
    // Plans of a program that is still to be recorded come after it.
    let is_there = |name: &String| kept.traces.iter().any(|spec| spec.name() == name);
    kept.layouts.retain(|layout| layout.from.iter().all(is_there));
    let sweep = Sweep::new(&kept, &files, options(arguments, folder)?).map_err(told)?;
    for one in sweep.remaining() {
        let of = one.done + one.tasks.len();
        let _ = writeln!(out, "{}: {} of {of} done before, to do: {}", one.trace, one.done, one.tasks.len());
        one.tasks.iter().for_each(|task| out += &format!("  {task}\n"));
    }
    let _ = writeln!(out, "results would go to {}", folder.display());
    print(&out)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the files, then prints.
fn publish(arguments: &Arguments, folder: &Path, result: &SweepResult) -> Result<(), CliError> {
    let failed =
        |e: &dyn std::fmt::Display| CliError::new(Code::Failed, format!("making results.parquet: {e}"));
    let parquet = sweep::to_parquet(result).map_err(|e| failed(&e))?;
    let json = sweep::to_json(result);
    let page = sweep::render_html(result);
    let files = [
        ("results.parquet", &parquet[..]),
        ("results.json", json.as_bytes()),
        ("index.html", page.as_bytes()),
    ];
    for (name, bytes) in files {
        write_whole(&folder.join(name), bytes).map_err(told)?;
    }
    for picture in sweep::pictures(result) {
        write_whole(&folder.join("pictures").join(picture.name), picture.svg.as_bytes()).map_err(told)?;
    }
    if arguments.style.json {
        print(&json)?;
    } else {
        let options = text_options(arguments.style.verbose, std::io::stdout().is_terminal());
        print(&sweep::render_text(result, &options))?;
    }
    if !arguments.style.quiet {
        say(format!("results written to {}", folder.display()));
    }
    Ok(())
}

/// A study's error with its exit code, and what to do next.
fn told(error: SweepError) -> CliError {
    match error {
        SweepError::Study { .. } => {
            CliError::new(Code::BadInput, error).or("docs/studies.md explains every key of a study file")
        }
        SweepError::Trace { .. } => {
            CliError::new(Code::BadInput, error).or("a trace is made by `pagewalk record`")
        }
        SweepError::Folder { .. } | SweepError::Threads(_) => CliError::new(Code::Failed, error),
    }
}

/// The bar on the terminal.
struct Bar(ProgressBar);

impl Progress for Bar {
    fn bytes(&self, bytes: u64) {
        self.0.inc(bytes);
    }
}
