//! Runs of the program at its own speed: as it is, and with alternatives.

use super::options::AdviceOptions;
use super::profile::ENDS_WELL;
use crate::error::{Error, Fault};
use crate::listener::{Bar, Listener};
use crate::native::describe_end;
use crate::plans::RunOptions;
use crate::plans::fitting::FittedPlan;
use crate::plans::trial::{Trial, by_turns, relay_signals};
use pagewalk_forecast::interval::{Interval, mean, of_median, of_turns, ratio};
use pagewalk_live::pages::PagesRun;
use pagewalk_live::timing::TimedRun;
use pagewalk_live::tracing::ProcessEnd;
use pagewalk_live::warmth::Warmth;
use pagewalk_plan::Plan;
use pagewalk_report::Class;
use pagewalk_report::huge_pages::schema::{ForecastSeconds, ForecastShare, RunTiming};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The program as it is.
pub const AS_IT_IS: &str = "as it is";
/// With everything that could pay on huge pages.
pub const ALL_RANGES: &str = "all ranges";
/// A tunable that the user could try.
pub const MALLOC: &str = "glibc.malloc.hugetlb=1";

/// On a busy host, runs are repeated up to this many times as often as requested ...
const MORE_RUNS: u64 = 4;
/// ... within this time,
const LONG_ENOUGH: Duration = Duration::from_secs(60);
/// until the 90 % interval of a run's time is narrower than this share of it,
const SURE_OF_TIME: f64 = 0.03;
/// and that of the saving narrower than this share of a run.
const SURE_OF_GAIN: f64 = 0.02;

/// All runs of one kind.
#[derive(Default)]
pub struct RunSeries {
    pub what: &'static str,
    /// Processor seconds of each run.
    pub seconds: Vec<f64>,
    /// Elapsed seconds of each run; empty for runs timed elsewhere.
    wall: Vec<f64>,
    /// Peak resident memory.
    resident_bytes: Option<u64>,
}

impl RunSeries {
    fn new(what: &'static str) -> RunSeries {
        RunSeries { what, ..RunSeries::default() }
    }

    /// The program as it is, from times that the user gives.
    pub fn given(seconds: &[f64]) -> RunSeries {
        RunSeries { seconds: seconds.to_vec(), ..RunSeries::new(AS_IT_IS) }
    }

    fn add(&mut self, run: &TimedRun) {
        self.seconds.push(run.processor().as_secs_f64());
        self.wall.push(run.wall.as_secs_f64());
        self.resident_bytes = self.resident_bytes.max(run.resident_bytes);
    }

    /// The runs as results have them, compared with `now`, the runs as it is.
    pub fn result(&self, now: &RunSeries) -> RunTiming {
        let is_other = self.what != now.what && !self.seconds.is_empty();
        RunTiming {
            what: self.what.to_owned(),
            median: seconds_of(Class::Measured, of_median(&self.seconds)),
            wall_seconds: (!self.wall.is_empty()).then(|| mean(&self.wall)),
            resident_mib: self.resident_bytes.map(|bytes| bytes as f64 / f64::from(1 << 20)),
            seconds: self.seconds.clone(),
            share: is_other.then(|| share_of(Class::Measured, of_turns(&now.seconds, &self.seconds))),
        }
    }
}

/// A share of a run's time, as results have it.
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

/// An interval of seconds, as results have it.
pub fn seconds_of(class: Class, time: Interval) -> ForecastSeconds {
    let known = |end: f64| end.is_finite().then_some(end.max(0.0));
    ForecastSeconds { class, seconds: time.value, low: known(time.low), high: known(time.high) }
}

/// The measured runs.
pub struct Trials {
    pub kinds: Vec<RunSeries>,
    /// Why the plan could not be applied, so that there is no trial.
    pub unapplied: Option<String>,
    /// Memory used and freed before each run, if requested.
    pub warmth: Option<Warmth>,
}

/// Set when the user asks to stop.
static STOPPED: AtomicBool = AtomicBool::new(false);

/// Alternates runs as it is, with the plan `all`, and with glibc's tunable.
pub fn run(options: &AdviceOptions, all: Option<Plan>, listener: &dyn Listener) -> Result<Trials, Error> {
    STOPPED.store(false, Ordering::Relaxed);
    let signals = relay_signals(&STOPPED, listener)?;
    let trials = TrialRuns::new(options, all)?.run(options, &*listener.shares("running the program"));
    drop(signals);
    trials
}

/// Runs in progress.
struct TrialRuns<'a> {
    trial: Trial<'a>,
    fitting: Option<FittedPlan>,
    kinds: Vec<RunSeries>,
    unapplied: Option<String>,
    /// Progress in per cent.
    done: u64,
}

impl<'a> TrialRuns<'a> {
    fn new(options: &'a AdviceOptions, all: Option<Plan>) -> Result<TrialRuns<'a>, Error> {
        let (fitting, unapplied) = match all.map(FittedPlan::of) {
            Some(Err(error)) => (None, Some(error.message().to_owned())),
            fitting => (fitting.and_then(Result::ok), None),
        };
        let mut kinds = vec![RunSeries::new(AS_IT_IS)];
        kinds.extend(fitting.is_some().then(|| RunSeries::new(ALL_RANGES)));
        kinds.extend((!options.no_trial).then(|| RunSeries::new(MALLOC)));
        let mut trial = Trial { command: &options.command, input: options.input(), warmth: None };
        if options.warm {
            // From a run that does not count, because its memory was not warmed.
            let peak = counted(AS_IT_IS, trial.plain(&[])?)?.resident_bytes;
            trial.warmth = Some(Warmth::of(peak.unwrap_or(0)));
        }
        Ok(TrialRuns { trial, fitting, kinds, unapplied, done: 0 })
    }

    fn run(mut self, options: &AdviceOptions, bar: &dyn Bar) -> Result<Trials, Error> {
        let (begun, least) = (Instant::now(), u64::from(options.runs));
        let most = (least * MORE_RUNS).max(1);
        let enough = |turns: &mut TrialRuns, round| {
            turns.done = 100 * round / most;
            let is_late = begun.elapsed() > LONG_ENOUGH;
            (round >= most || round >= least && (is_late || turns.is_sure())).then_some(())
        };
        let kinds = self.kinds.len();
        by_turns(&mut self, kinds, enough, |turns, kind| {
            bar.reach(turns.done, turns.kinds[kind].what);
            turns.once(kind)
        })?;
        self.kinds.retain(|kind| kind.what != ALL_RANGES || self.unapplied.is_none());
        Ok(Trials { kinds: self.kinds, unapplied: self.unapplied, warmth: self.trial.warmth })
    }

    fn once(&mut self, kind: usize) -> Result<(), Error> {
        let what = self.kinds[kind].what;
        let run = match what {
            ALL_RANGES => match self.planned()? {
                Ok(run) => run.timed,
                Err(why) => {
                    self.unapplied = Some(why);
                    return Ok(());
                }
            },
            MALLOC => self.trial.plain(&[("GLIBC_TUNABLES", MALLOC)])?,
            _ => self.trial.plain(&[])?,
        };
        let run = counted(what, run)?;
        self.kinds[kind].add(&run);
        if let (Some(warmth), Some(bytes)) = (&mut self.trial.warmth, run.resident_bytes) {
            warmth.suit(bytes);
        }
        Ok(())
    }

    /// A run under the plan, or why that is impossible.
    fn planned(&self) -> Result<Result<PagesRun, String>, Error> {
        if let Some(why) = &self.unapplied {
            return Ok(Err(why.clone()));
        }
        let fitting = self.fitting.as_ref().expect("there is a plan where its runs are wanted");
        let whatever_comes = RunOptions { or_default: true, ..RunOptions::default() };
        match self.trial.planned(fitting, whatever_comes) {
            Ok(run) => Ok(unapplied(&run).map_or(Ok(run), Err)),
            Err(error) if error.can_run_without() => Ok(Err(error.message().to_owned())),
            Err(error) => Err(error),
        }
    }

    /// Whether more runs would add little.
    fn is_sure(&self) -> bool {
        let now = &self.kinds[0].seconds;
        let all = self.kinds.iter().find(|kind| kind.what == ALL_RANGES && self.unapplied.is_none());
        let time = of_median(now);
        let is_sure_of_gain = |all: &RunSeries| ratio(now, &all.seconds).width() < SURE_OF_GAIN;
        time.width() < SURE_OF_TIME * time.value && all.is_none_or(is_sure_of_gain)
    }
}

/// A run, if it ended well.
fn counted(what: &str, run: TimedRun) -> Result<TimedRun, Error> {
    let failed = |why: &str| Error::new(Fault::Failed, format!("running it {what}: {why}"));
    if STOPPED.load(Ordering::Relaxed) {
        return Err(failed("interrupted"));
    }
    match run.end {
        ProcessEnd::Exit(0) => Ok(run),
        end => Err(failed(&format!("it ended with {}", describe_end(end))).or(ENDS_WELL)),
    }
}

/// Why a run says nothing about its plan, if no image could have it.
fn unapplied(run: &PagesRun) -> Option<String> {
    if run.images.iter().any(|image| image.obstacle.is_none()) {
        return None;
    }
    let why = run.images.iter().find_map(|image| image.obstacle.clone());
    Some(why.unwrap_or_else(|| "its program was not begun".to_owned()))
}
