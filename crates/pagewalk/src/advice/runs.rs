//! Runs of the program at its own speed: as it is, and with what could be done.

use super::options::Options;
use crate::engine;
use crate::error::{Error, Fault};
use crate::listener::Listener;
use crate::native::warm;
use pagewalk_forecast::interval::{Interval, mean, of_median, of_turns, ratio};
use pagewalk_live::timed::{self, Timed};
use pagewalk_live::warmth::Warmth;
use pagewalk_report::Class;
use pagewalk_report::huge_pages::schema::{ForecastSeconds, ForecastShare, Runs};
use serde::Deserialize;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::NamedTempFile;

/// The program as it is.
pub const AS_IT_IS: &str = "as it is";
/// With all that could pay on huge pages.
pub const ALL_RANGES: &str = "all ranges";
/// What users are told to try.
pub const MALLOC: &str = "glibc.malloc.hugetlb=1";

/// Where the host is busy with other things, runs are repeated up to so many times as often as asked for ...
const MORE_RUNS: u64 = 4;
/// ... as long as no more time than this has passed,
const LONG_ENOUGH: Duration = Duration::from_secs(60);
/// until the 90 % interval of a run's time is narrower than this part of it,
const SURE_OF_TIME: f64 = 0.03;
/// and that of what huge pages save narrower than this part of a run.
const SURE_OF_GAIN: f64 = 0.02;

/// All runs of one kind.
#[derive(Default)]
pub struct Kind {
    pub what: &'static str,
    /// Processor seconds of each.
    pub seconds: Vec<f64>,
    /// Seconds from start to end of each; none of runs that were timed elsewhere.
    wall: Vec<f64>,
    /// Most memory resident at a time.
    resident_bytes: Option<u64>,
}

impl Kind {
    fn new(what: &'static str) -> Kind {
        Kind { what, ..Kind::default() }
    }

    /// The program as it is, by the times that the user gives.
    pub fn given(seconds: &[f64]) -> Kind {
        Kind { seconds: seconds.to_vec(), ..Kind::new(AS_IT_IS) }
    }

    fn add(&mut self, run: &Once) {
        self.seconds.push(run.processor_seconds);
        self.wall.push(run.seconds);
        self.resident_bytes = self.resident_bytes.max(run.resident_bytes);
    }

    /// As results have it; `now` are the runs of the program as it is.
    pub fn result(&self, now: &Kind) -> Runs {
        let is_other = self.what != now.what && !self.seconds.is_empty();
        Runs {
            what: self.what.to_owned(),
            median: seconds_of(Class::Measured, of_median(&self.seconds)),
            wall_seconds: (!self.wall.is_empty()).then(|| mean(&self.wall)),
            resident_mib: self.resident_bytes.map(|bytes| bytes as f64 / f64::from(1 << 20)),
            seconds: self.seconds.clone(),
            share: is_other.then(|| share_of(Class::Measured, of_turns(&now.seconds, &self.seconds))),
        }
    }
}

/// A part of a run's time as results have it.
pub fn share_of(class: Class, part: Interval) -> ForecastShare {
    let known = |end: f64| end.is_finite().then_some(end.max(0.0));
    let Interval { value, low, high } = part;
    ForecastShare {
        class,
        share: value,
        low: known(low).unwrap_or(0.0),
        high: known(high).unwrap_or(f64::MAX),
    }
}

/// An interval as results have it.
pub fn seconds_of(class: Class, time: Interval) -> ForecastSeconds {
    let known = |end: f64| end.is_finite().then_some(end.max(0.0));
    ForecastSeconds { class, seconds: time.value, low: known(time.low), high: known(time.high) }
}

/// What the runs showed.
pub struct Trials {
    pub kinds: Vec<Kind>,
    /// Why the plan could not be followed, so that there is no trial of it.
    pub unapplied: Option<String>,
    /// What was used and freed before each, if that was asked for.
    pub warmth: Option<Warmth>,
}

/// Runs the program by turns as it is, with the plan `all`, and with glibc's tunable: whatever else the host does
/// meanwhile meets all alike.
pub fn run(options: &Options, all: Option<&Path>, listener: &dyn Listener) -> Result<Trials, Error> {
    let mut unapplied = None;
    let mut warmth = if options.warm { Some(warmth(options)?) } else { None };
    let mut kinds = vec![Kind::new(AS_IT_IS)];
    if all.is_some() {
        kinds.push(Kind::new(ALL_RANGES));
    }
    if !options.no_trial {
        kinds.push(Kind::new(MALLOC));
    }
    let bar = listener.shares("running the program");
    let (begun, least) = (Instant::now(), u64::from(options.runs));
    let most = least * MORE_RUNS;
    for round in 0..most {
        let is_late = begun.elapsed() > LONG_ENOUGH;
        if round >= least && (is_late || is_sure(&kinds)) {
            break;
        }
        // Each kind as often after as before each other: what a run leaves behind meets all alike, too.
        let forth = 0..kinds.len();
        let turns: Vec<usize> = if round % 2 == 0 { forth.collect() } else { forth.rev().collect() };
        for turn in turns {
            let kind = &mut kinds[turn];
            bar.reach(100 * round / most, kind.what);
            warm(warmth)?;
            match once(options, kind.what, all)? {
                Ran::Counts(run) => {
                    kind.add(&run);
                    if let (Some(warmth), Some(bytes)) = (&mut warmth, run.resident_bytes) {
                        warmth.suit(bytes);
                    }
                }
                Ran::Without(why) => unapplied = Some(why),
            }
        }
        if unapplied.is_some() {
            kinds.retain(|kind| kind.what != ALL_RANGES);
        }
    }
    drop(bar);
    Ok(Trials { kinds, unapplied, warmth })
}

/// As much as the program needs, by a run that does not count: its memory came from wherever it did.
fn warmth(options: &Options) -> Result<Warmth, Error> {
    let peak = match once(options, AS_IT_IS, None)? {
        Ran::Counts(run) => run.resident_bytes,
        Ran::Without(_) => None,
    };
    Ok(Warmth::of(peak.unwrap_or(0)))
}

/// Whether more runs would tell little more.
fn is_sure(kinds: &[Kind]) -> bool {
    let now = of_median(&kinds[0].seconds);
    let all = kinds.iter().find(|kind| kind.what == ALL_RANGES);
    let is_sure_of_gain = |all: &Kind| ratio(&kinds[0].seconds, &all.seconds).width() < SURE_OF_GAIN;
    now.width() < SURE_OF_TIME * now.value && all.is_none_or(is_sure_of_gain)
}

/// One run, without what following it took: the keys are those of `apply`.
#[derive(Deserialize)]
struct Once {
    seconds: f64,
    processor_seconds: f64,
    resident_bytes: Option<u64>,
    /// Process images of the plan's program.
    #[serde(default)]
    images: Vec<AppliedTo>,
}

#[derive(Deserialize)]
struct AppliedTo {
    /// Why the plan could not be followed, if it could not.
    obstacle: Option<String>,
}

/// What came of a run.
enum Ran {
    Counts(Once),
    /// It was to follow a plan and ran without, for this reason: it says nothing of the plan.
    Without(String),
}

impl From<Timed> for Once {
    fn from(run: Timed) -> Once {
        let (seconds, processor_seconds) = (run.wall.as_secs_f64(), run.processor().as_secs_f64());
        Once { seconds, processor_seconds, resident_bytes: run.resident_bytes, images: Vec::new() }
    }
}

fn once(options: &Options, what: &str, all: Option<&Path>) -> Result<Ran, Error> {
    let failed = |why: &dyn std::fmt::Display| Error::new(Fault::Failed, format!("running it {what}: {why}"));
    let (program, words) = (&options.command[0], &options.command[1..]);
    let applied = match all.filter(|_| what == ALL_RANGES) {
        Some(plan) => Some((plan, NamedTempFile::new().map_err(|error| failed(&error))?)),
        None => None,
    };
    let mut command = match &applied {
        Some((plan, result)) => {
            let mut command = Command::new(&options.launcher);
            // Ranges that the kernel gives no huge page in this run are part of what the plan brings.
            command.args(["apply", "--quiet", "--or-default", "--output"]).arg(result.path());
            command.arg(plan).arg("--").arg(program);
            command
        }
        None => Command::new(program),
    };
    if what == MALLOC {
        command.env("GLIBC_TUNABLES", MALLOC);
    }
    command.args(words).stdin(input(options)?).stdout(timed::nowhere().map_err(|error| failed(&error))?);
    let run = timed::run(&mut command).map_err(|error| failed(&error))?;
    if !run.status.success() {
        let ended = format!("it ended with {}", engine::describe(run.status));
        return Err(failed(&ended).or(super::profile::ENDS_WELL));
    }
    let Some((_, result)) = applied else { return Ok(Ran::Counts(run.into())) };
    let told = fs::read(result.path()).map_err(|error| failed(&error))?;
    // Nothing was written where the program ran in the launcher's place.
    if told.is_empty() {
        return Ok(Ran::Without("`pagewalk apply` of a plan tells why".to_owned()));
    }
    let once: Once = serde_json::from_slice(&told).map_err(|error| failed(&error))?;
    if once.images.iter().any(|image| image.obstacle.is_none()) {
        return Ok(Ran::Counts(once));
    }
    let why = once.images.into_iter().find_map(|image| image.obstacle);
    Ok(Ran::Without(why.unwrap_or_else(|| "its program was not begun".to_owned())))
}

/// What the program reads.
pub fn input(options: &Options) -> Result<File, Error> {
    let path = options.input.as_deref().unwrap_or(Path::new("/dev/null"));
    File::open(path)
        .map_err(|error| Error::new(Fault::BadInput, format!("--input {}: {error}", path.display())))
}
