//! `pagewalk contiguity`: read a live process's page map, and say what designs of TLBs would make of its memory.

mod result;

use crate::arguments::Contiguity;
use crate::error::{CliError, Code};
use crate::native::{exit_code, relay_to_followed};
use crate::output::{Output, print, say, say_next, text_options, write_to_stderr};
use pagewalk_capture::check_program;
use pagewalk_live::pagemap::{self, Kept, Moment, PagemapError, Snapshot};
use pagewalk_live::tracing::{Interrupt, LaunchError};
use pagewalk_report::contiguity::{
    ContiguityResult, huge_pages_help, render_html, render_text, run_lengths_file, to_json,
};
use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

/// A process that was read.
struct Reading {
    pid: i32,
    program: String,
    command_line: Vec<String>,
    snapshot: Snapshot,
    /// None of a process that was not started here.
    moment: Option<Moment>,
    seconds: f64,
    peak_resident_bytes: Option<u64>,
}

pub fn run(arguments: Contiguity) -> Result<ExitCode, CliError> {
    if let Some(program) = arguments.command.first() {
        check_program(program).map_err(|error| CliError::new(Code::Usage, error))?;
    }
    let files = Files::open(&arguments.outputs)?;
    let (reading, code) = match arguments.pid {
        Some(pid) => (read(pid)?, ExitCode::SUCCESS),
        None => run_program(&arguments.command)?,
    };
    let result = result::of(&reading);
    publish(&arguments, &result, files)?;
    if huge_pages_help(&result) {
        let whom = arguments.pid.map_or_else(|| "-- CMD".to_owned(), |pid| format!("--pid {pid}"));
        say_next(arguments.style.quiet, format!("pagewalk advise -o plan.toml {whom}"));
    }
    Ok(code)
}

/// Reads a process that runs.
fn read(pid: i32) -> Result<Reading, CliError> {
    // These are gone if it ends meanwhile.
    let (program, command_line) = (pagemap::program(pid), pagemap::command_line(pid));
    let begun = Instant::now();
    let snapshot = pagemap::snapshot(pid).map_err(cannot_read)?;
    let seconds = begun.elapsed().as_secs_f64();
    let peak_resident_bytes = pagemap::peak_resident_bytes(pid);
    Ok(Reading { pid, program, command_line, snapshot, moment: None, seconds, peak_resident_bytes })
}

/// Runs a program to its end; the reading with most memory, and its exit code.
fn run_program(command: &[OsString]) -> Result<(Reading, ExitCode), CliError> {
    let interrupt = Arc::new(Interrupt::new());
    let signals = relay_to_followed(Arc::clone(&interrupt))?;
    let run = pagemap::run_to_exit(command, &interrupt);
    drop(signals);
    let run = run.map_err(|error| match error {
        LaunchError::Trace(_) => CliError::new(Code::HostCannot, error).or(
            "allow ptrace (sysctl kernel.yama.ptrace_scope=1; in a container its seccomp profile), or read a process \
             that runs: --pid PID",
        ),
        error => CliError::new(Code::Failed, error),
    })?;
    let kept = run.kept.ok_or_else(|| {
        CliError::new(Code::Failed, "the program was killed before its memory could be read")
            .or("read it while it runs: --pid PID")
    })?;
    let Kept { snapshot, moment, seconds, program, command_line } = kept;
    let (pid, peak_resident_bytes) = (run.pid, run.peak_resident_bytes);
    let moment = Some(moment);
    let reading = Reading { pid, program, command_line, snapshot, moment, seconds, peak_resident_bytes };
    Ok((reading, exit_code(run.end)))
}

fn cannot_read(error: PagemapError) -> CliError {
    let code = match &error {
        PagemapError::NoProcess(_) | PagemapError::NoMemory(_) => Code::Usage,
        PagemapError::Forbidden { .. } | PagemapError::NoPagemap => Code::HostCannot,
        _ => Code::Failed,
    };
    let next = error.enable();
    CliError::new(code, error).or(next)
}

/// A form in which the result can be saved.
#[derive(Clone, Copy)]
enum Format {
    Html,
    Svg,
    Json,
}

/// Where the result goes: files opened before the work began.
struct Files(Vec<(Output, Format)>);

impl Files {
    fn open(paths: &[PathBuf]) -> Result<Files, CliError> {
        let open = |path: &PathBuf| {
            let format = format_of(path)?;
            Ok((Output::open(path)?, format))
        };
        paths.iter().map(open).collect::<Result<_, _>>().map(Files)
    }
}

/// The form that a file's name asks for.
fn format_of(path: &Path) -> Result<Format, CliError> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("html") => Ok(Format::Html),
        Some("svg") => Ok(Format::Svg),
        Some("json") => Ok(Format::Json),
        _ => Err(CliError::new(Code::Usage, format!("cannot tell what to write to {}", path.display()))
            .or("let the name end in .html for the page, in .svg for the picture, or in .json for the data")),
    }
}

/// A program's own output went to stdout while it ran, so the text goes to stderr then.
fn publish(arguments: &Contiguity, result: &ContiguityResult, files: Files) -> Result<(), CliError> {
    let verbose = arguments.style.verbose;
    let printed = if arguments.style.json {
        print(&to_json(result))
    } else if arguments.pid.is_none() {
        write_to_stderr(&render_text(result, &text_options(verbose, io::stderr().is_terminal())));
        Ok(())
    } else {
        print(&render_text(result, &text_options(verbose, io::stdout().is_terminal())))
    };
    let write = |(output, format): (Output, Format)| {
        let (what, text) = match format {
            Format::Html => ("report", render_html(result)),
            Format::Svg => ("picture", run_lengths_file(result)),
            Format::Json => ("result", to_json(result)),
        };
        let path = output.write(text.as_bytes())?;
        if !arguments.style.quiet {
            say(format!("{what} written to {}", path.display()));
        }
        Ok(())
    };
    // Also those after one that fails.
    files.0.into_iter().map(write).fold(printed, Result::and)
}
