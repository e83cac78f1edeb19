//! `pagewalk sweep`: runs a study of many machines, families and curves over many streams.

use crate::OnDask;
use crate::arguments::{Style, Sweep};
use crate::exit::ExitCode;
use crate::output::{print, say, text_options};
use crate::signals::note_stops;
use crate::terminal::Terminal;
use pagewalk::report::documents::study::SweepStatusResult;
use pagewalk::report::{documents, sweep};
use pagewalk::study::{Place, StudyFolder, check_findings, status};
use pagewalk::{Error, Fault};
use std::fmt::Write;
use std::io::IsTerminal;
use std::num::NonZeroUsize;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

pub fn run(arguments: Sweep, on_dask: Option<OnDask<'_>>) -> Result<ExitCode, Error> {
    let Sweep { output, threads, traces, study, style, .. } = &arguments;
    if arguments.status && study.is_dir() {
        return show_status(study, style);
    }
    let terminal = Terminal { quiet: style.quiet };
    let study = StudyFolder::read(study, traces, output.as_deref(), *threads, &terminal)?;
    if arguments.status {
        return show_status(study.folder(), style);
    }
    if arguments.dry_run {
        print(&study.outline(&terminal)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let folder = study.folder().to_owned();
    let _noted = note_stops()?;
    let result = match (&arguments.on, on_dask) {
        (Place::Local, _) => study.run(&terminal)?,
        (Place::Dask(address), Some(on_dask)) => {
            on_dask(study.jobs(&terminal)?, address, threads.unwrap_or(NonZeroUsize::MIN))?
                .finish(&terminal)?
        }
        (Place::Dask(_), None) => return hand_over(),
    };
    if style.json {
        print(&sweep::to_json(&result))?;
    } else {
        let options = text_options(style.verbose, std::io::stdout().is_terminal());
        print(&sweep::render_text(&result, &options))?;
    }
    if !style.quiet {
        say(format!("results written to {0}; next: open {0}/index.html", folder.display()));
    }
    check_findings(&result)?;
    Ok(ExitCode::SUCCESS)
}

/// Replaces this process with the command of the Python package, which runs jobs on Dask.
fn hand_over() -> Result<ExitCode, Error> {
    const PYTHON: &str = "python3";
    let cannot = |why: &str| {
        Error::new(Fault::HostCannot, format!("--on dask:// needs the Python package, and {why}"))
            .or("pip install './python[cluster]', or use its own command `pagewalk`")
    };
    let check = Command::new(PYTHON).args(["-c", "import pagewalk.cluster, distributed"]).output();
    let check = check.map_err(|error| cannot(&format!("{PYTHON} does not start: {error}")))?;
    if !check.status.success() {
        let text = String::from_utf8_lossy(&check.stderr);
        let why = text.trim_end().lines().last().unwrap_or("it does not say why").to_owned();
        return Err(cannot(&format!("{PYTHON} cannot import it: {why}")));
    }
    let failed = Command::new(PYTHON).args(["-m", "pagewalk"]).args(std::env::args_os().skip(1)).exec();
    Err(cannot(&format!("{PYTHON} does not start: {failed}")))
}

fn show_status(folder: &Path, style: &Style) -> Result<ExitCode, Error> {
    let status = status(folder)?;
    print(&if style.json { documents::text(&status) } else { status_text(&status, style.verbose) })?;
    Ok(ExitCode::SUCCESS)
}

/// A line for the study, one for each worker, and with `verbose` one for each job that is not done.
fn status_text(status: &SweepStatusResult, verbose: bool) -> String {
    let SweepStatusResult { name, units, units_done, seconds_left, workers, jobs, .. } = status;
    let left = match seconds_left {
        Some(seconds) if units_done < units => format!(", about {} left", duration(*seconds)),
        _ => String::new(),
    };
    let mut out = match units {
        0 => format!("{name}: programs are recorded and plans made; then units are counted\n"),
        _ => format!("{name}: {units_done} of {units} units done{left}\n"),
    };
    if workers.is_empty() && units_done < units {
        out += "no process works on a job: `pagewalk sweep` with this folder goes on with it\n";
    }
    for worker in workers {
        let age = duration(worker.seconds as f64);
        let _ = writeln!(out, "  {} {}, for {age}: {}", worker.host, worker.pid, worker.jobs.join("; "));
    }
    for job in jobs.iter().filter(|_| verbose) {
        let _ = writeln!(out, "  to do, {} of {}: {}", job.units - job.units_done, job.units, job.title);
    }
    out
}

/// A time in words: `12 s`, `3 min`, `2.5 h`.
fn duration(seconds: f64) -> String {
    match seconds {
        short if short < 120.0 => format!("{short:.0} s"),
        minutes if minutes < 7200.0 => format!("{:.0} min", minutes / 60.0),
        hours => format!("{:.1} h", hours / 3600.0),
    }
}
