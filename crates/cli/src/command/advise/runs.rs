//! Runs of the program at its own speed: as it is, and with what could be done.

use crate::arguments::Advise;
use crate::error::{CliError, Code};
use crate::progress;
use pagewalk_forecast::interval::of_runs;
use pagewalk_live::timed::{self, Timed};
use pagewalk_report::huge_pages::schema::{Class, ForecastSeconds, Runs};
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

/// The program as it is.
pub const AS_IT_IS: &str = "as it is";
/// With all that could pay on huge pages.
pub const ALL_RANGES: &str = "all ranges";
/// What users are told to try.
pub const MALLOC: &str = "glibc.malloc.hugetlb=1";

/// All runs of one kind.
pub struct Kind {
    pub what: &'static str,
    runs: Vec<Timed>,
}

impl Kind {
    /// Processor seconds of each run.
    pub fn seconds(&self) -> Vec<f64> {
        self.runs.iter().map(|run| run.processor().as_secs_f64()).collect()
    }

    pub fn result(&self) -> Runs {
        let seconds = self.seconds();
        let wall = self.runs.iter().map(|run| run.wall.as_secs_f64()).sum::<f64>();
        let resident = self.runs.iter().map(|run| run.resident_bytes).max().unwrap_or(0);
        Runs {
            what: self.what.to_owned(),
            mean: seconds_of(Class::Measured, of_runs(&seconds)),
            wall_seconds: wall / seconds.len().max(1) as f64,
            resident_mib: resident as f64 / f64::from(1 << 20),
            seconds,
        }
    }
}

/// An interval as results have it.
pub fn seconds_of(class: Class, time: pagewalk_forecast::interval::Interval) -> ForecastSeconds {
    let known = |end: f64| end.is_finite().then_some(end.max(0.0));
    ForecastSeconds { class, seconds: time.value, low: known(time.low), high: known(time.high) }
}

/// Runs the program by turns as it is, with the plan `all`, and with glibc's tunable: whatever else the host does
/// meanwhile meets all alike.
pub fn run(arguments: &Advise, all: Option<&Path>) -> Result<Vec<Kind>, CliError> {
    let mut kinds = vec![Kind { what: AS_IT_IS, runs: Vec::new() }];
    if all.is_some() {
        kinds.push(Kind { what: ALL_RANGES, runs: Vec::new() });
    }
    if !arguments.no_trial {
        kinds.push(Kind { what: MALLOC, runs: Vec::new() });
    }
    let bar = progress::shares("running the program", arguments.style.quiet);
    let total = u64::from(arguments.runs) * kinds.len() as u64;
    let mut done = 0;
    for _ in 0..arguments.runs {
        for kind in &mut kinds {
            bar.set_message(kind.what);
            kind.runs.push(once(arguments, kind.what, all)?);
            done += 1;
            bar.set_position(100 * done / total);
        }
    }
    bar.finish_and_clear();
    Ok(kinds)
}

fn once(arguments: &Advise, what: &str, all: Option<&Path>) -> Result<Timed, CliError> {
    let failed =
        |why: &dyn std::fmt::Display| CliError::new(Code::Failed, format!("running it {what}: {why}"));
    let [program, words @ ..] = arguments.command.as_slice() else { unreachable!("clap requires one") };
    let mut command = match all.filter(|_| what == ALL_RANGES) {
        Some(plan) => {
            let own = std::env::current_exe().map_err(|error| failed(&error))?;
            let mut command = Command::new(own);
            command.args(["apply", "--quiet"]).arg(plan).arg("--").arg(program);
            command
        }
        None => Command::new(program),
    };
    if what == MALLOC {
        command.env("GLIBC_TUNABLES", MALLOC);
    }
    command.args(words).stdin(input(arguments)?).stdout(Stdio::null());
    let run = timed::run(&mut command).map_err(|error| failed(&error))?;
    if run.status.success() {
        return Ok(run);
    }
    let ended = format!("it ended with {}", crate::live::describe(run.status));
    Err(failed(&ended).or(super::seen::ENDS_WELL))
}

/// What the program reads.
pub fn input(arguments: &Advise) -> Result<File, CliError> {
    let path = arguments.input.as_deref().unwrap_or(Path::new("/dev/null"));
    File::open(path)
        .map_err(|error| CliError::new(Code::Usage, format!("--input {}: {error}", path.display())))
}
