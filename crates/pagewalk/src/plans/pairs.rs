//! Measures what a plan saves, in pairs of runs without and with it.

use super::fitting::FittedPlan;
use super::run::RunOptions;
use super::trial::{Trial, by_turns, relay_signals};
use super::{history, outcome};
use crate::error::{Error, Fault};
use crate::listener::{Bar, Listener};
use crate::native::{describe_end, end};
use crate::program::{OR_DEFAULT, check_command};
use pagewalk_forecast::interval::{Interval, mean, of_runs, ratio};
use pagewalk_live::pages::{PagesRun, kernel};
use pagewalk_live::timing::TimedRun;
use pagewalk_live::tracing::ProcessEnd;
use pagewalk_live::warmth::Warmth;
use pagewalk_plan::{Forecast, Plan};
use pagewalk_report::documents::plans::{self, RunTimes, Share, VERIFY_SCHEMA, VerifiedPlan, VerifyResult};
use pagewalk_report::{Class, TextOptions, TimeUnit, classes, render_verification_text};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Fewest pairs for a reliable interval.
const PAIRS_MIN: usize = 3;
/// Fewest pairs for any interval.
const PAIRS_LEAST: usize = 2;

/// Selects one of a run's times.
type TimeOf = fn(&TimedRun) -> f64;

/// How many pairs to run, and how.
#[derive(Clone, Copy)]
pub struct PairOptions {
    /// Most pairs.
    pub runs: u32,
    /// Stop when the interval of the saving is narrower than this many per cent of the processor time.
    pub width: f64,
    /// Seconds after which no pair begins.
    pub budget: Option<f64>,
    /// Whether to let a host in mode `always` also give huge pages to unplanned memory.
    pub keep_others: bool,
    /// Whether to use and free memory before each run.
    pub warm: bool,
}

/// A program that is ready to run in pairs.
pub struct Pairs {
    fitting: FittedPlan,
    command: Vec<OsString>,
    options: PairOptions,
}

/// All measurements. The forecast is of processor time, so processor time is compared with it: it excludes waiting, and
/// other load on the host.
struct PairTimes {
    without: Vec<TimedRun>,
    with: Vec<TimedRun>,
    /// The run with the plan in which fewest ranges took effect.
    run: PagesRun,
    /// Why its ranges did not take effect, if they did not.
    missed: Option<String>,
    /// Why no more pairs were run.
    stopped: &'static str,
    /// Memory used and freed before each run, if requested.
    warmth: Option<Warmth>,
}

/// What the plan saves.
pub struct Verification {
    pairs: Pairs,
    measured: PairTimes,
}

impl Verification {
    /// For people.
    pub fn text(&self, options: &TextOptions) -> String {
        let tables = outcome::tables(&self.pairs.fitting, &self.measured.run);
        tables + &render_verification_text(&self.document(), options)
    }

    /// Harmless facts that the user should know.
    pub fn notes(&self) -> Vec<String> {
        let fitting = &self.pairs.fitting;
        fitting.notes.iter().cloned().chain(outcome::notes(fitting, &self.measured.run)).collect()
    }

    /// As data.
    pub fn document(&self) -> VerifyResult {
        document(&self.pairs.command, &self.pairs.fitting, &self.measured)
    }

    /// As a line of the record of forecasts.
    pub fn record(&self) -> Value {
        record(&self.pairs.fitting, &self.measured)
    }

    /// Why the plan did not take effect, if it did not.
    pub fn missed(&self) -> Option<&str> {
        self.measured.missed.as_deref()
    }

    /// Whether it surely saves processor time. A plan that may also lose is not worth keeping.
    pub fn pays(&self) -> bool {
        let (without, with) = (&self.measured.without, &self.measured.with);
        match bound(share(without, with)) {
            Some((_, high)) => high < 1.0,
            None => gain(without, with, processor).low > 0.0,
        }
    }
}

impl Pairs {
    /// Checks that the plan at `path` fits, and that the program can run under it. Runs nothing yet.
    ///
    /// # Errors
    /// If a check fails.
    pub fn prepare(path: &Path, command: &[OsString], options: PairOptions) -> Result<Pairs, Error> {
        let mut fitting = FittedPlan::new(path)?;
        check_command(&command[0], OR_DEFAULT)?;
        fitting.notes.extend(other_arguments(&fitting.plan, command));
        Ok(Pairs { fitting, command: command.to_vec(), options })
    }

    /// Runs pairs until the result is certain enough; the user's request to stop sets `stop`.
    ///
    /// # Errors
    /// If a run fails or ends in another way than the first, or the user asks to stop before there are two pairs.
    pub fn run(self, stop: &'static AtomicBool, listener: &dyn Listener) -> Result<Verification, Error> {
        let signals = relay_signals(stop, listener)?;
        let measured = self.measure(stop, &*listener.shares("pairs of runs"));
        drop(signals);
        Ok(Verification { measured: measured?, pairs: self })
    }

    fn measure(&self, stop: &AtomicBool, bar: &dyn Bar) -> Result<PairTimes, Error> {
        let (fitting, options, begun) = (&self.fitting, &self.options, Instant::now());
        let mut trial = Trial { command: &self.command, input: Path::new("/dev/null"), warmth: None };
        // One warm-up run of each; the first shows how much memory the program needs.
        let first = trial.plain(&[])?;
        trial.warmth = options.warm.then(|| Warmth::of(first.resident_bytes.unwrap_or(0)));
        let go_on = |how, end, pairs| go_on(stop, first.end, (how, end), pairs);
        go_on("without", first.end, 0)?;
        let keep_others = RunOptions { keep_others: options.keep_others, ..RunOptions::default() };
        let with = |pairs| {
            let run = trial.planned(fitting, keep_others)?;
            go_on("with", run.timed.end, pairs).map(|()| run)
        };
        let run = with(0)?;
        let missed = outcome::missed(fitting, &run);
        let (without, warmth) = (Vec::new(), trial.warmth);
        let mut all = PairTimes { without, with: Vec::new(), run, missed, stopped: "", warmth };
        let enough = |all: &mut PairTimes, pairs: u64| {
            bar.reach(done(options, pairs, begun.elapsed()), &format!("{pairs} of at most {}", options.runs));
            all.enough(options, begun.elapsed().as_secs_f64())
        };
        let stopped = by_turns(&mut all, 2, enough, |all, kind| {
            let pairs = all.without.len().min(all.with.len());
            if kind == 0 {
                let run = trial.plain(&[])?;
                go_on("without", run.end, pairs)?;
                all.without.push(run);
                return Ok(());
            }
            let next = with(pairs)?;
            all.with.push(next.timed);
            let misses = outcome::missed(fitting, &next);
            if misses.is_some() || all.missed.is_none() {
                (all.run, all.missed) = (next, misses.or(all.missed.take()));
            }
            Ok(())
        });
        all.stopped = match stopped {
            // Whole pairs count.
            Err(_) if stop.load(Ordering::Relaxed) && all.keep_pairs() >= PAIRS_LEAST => "an interrupt",
            stopped => stopped?,
        };
        Ok(all)
    }
}

impl PairTimes {
    /// Drops a run whose pair is not whole. Returns the number of pairs.
    fn keep_pairs(&mut self) -> usize {
        let pairs = self.with.len().min(self.without.len());
        self.with.truncate(pairs);
        self.without.truncate(pairs);
        pairs
    }

    /// Why no more pairs are needed after `seconds`, if so.
    fn enough(&self, options: &PairOptions, seconds: f64) -> Option<&'static str> {
        let pairs = self.with.len();
        if pairs >= options.runs as usize {
            Some("the number of runs")
        } else if pairs >= PAIRS_MIN && is_narrow(&self.without, &self.with, options.width) {
            Some("the interval's width")
        } else if pairs >= PAIRS_LEAST && options.budget.is_some_and(|budget| seconds > budget) {
            Some("the time")
        } else {
            None
        }
    }
}

/// The arguments that the forecast is for, if these differ.
fn other_arguments(plan: &Plan, command: &[OsString]) -> Option<String> {
    let planned = &plan.program.arguments;
    let given: Vec<_> = command[1..].iter().map(|word| word.to_string_lossy()).collect();
    (plan.forecast.is_some() && *planned != given)
        .then(|| format!("the forecast was made with the arguments `{}`, not with these", planned.join(" ")))
}

/// Progress in per cent, at least: by pairs, or by time.
fn done(options: &PairOptions, pairs: u64, elapsed: Duration) -> u64 {
    let by_pairs = pairs as f64 / f64::from(options.runs);
    let by_time = options.budget.map_or(0.0, |budget| elapsed.as_secs_f64() / budget);
    (by_pairs.max(by_time).min(1.0) * 100.0) as u64
}

/// Whether the finished run counts: nobody asked to stop, and it ended like the first run without the plan. `pairs`
/// counts the pairs so far.
fn go_on(
    stop: &AtomicBool,
    native: ProcessEnd,
    (how, end): (&str, ProcessEnd),
    pairs: usize,
) -> Result<(), Error> {
    let message = if stop.load(Ordering::Relaxed) {
        format!("interrupted after {pairs} pairs of runs; nothing was recorded")
    } else if end != native {
        format!(
            "{how} the plan the program ended by {}, at first without it by {}",
            describe_end(end),
            describe_end(native)
        )
    } else {
        return Ok(());
    };
    Err(Error::new(Fault::Failed, message))
}

/// Whether the interval is narrow, and there are enough pairs for one of the time's share.
fn is_narrow(a: &[TimedRun], b: &[TimedRun], percent: f64) -> bool {
    let is_narrow = gain(a, b, processor).width() < percent / 100.0 * mean_of(a, processor);
    is_narrow && bound(share(a, b)).is_some()
}

/// The plan's saving, by pairs.
fn gain(a: &[TimedRun], b: &[TimedRun], of: TimeOf) -> Interval {
    let saved: Vec<f64> = a.iter().zip(b).map(|(a, b)| of(a) - of(b)).collect();
    of_runs(&saved)
}

fn mean_of(times: &[TimedRun], of: TimeOf) -> f64 {
    mean(&times.iter().map(of).collect::<Vec<f64>>())
}

fn wall(run: &TimedRun) -> f64 {
    run.wall.as_secs_f64()
}

fn processor(run: &TimedRun) -> f64 {
    run.processor().as_secs_f64()
}

/// Processor time with the plan over that without, by pairs: slow changes of the host cancel out.
fn share(without: &[TimedRun], with: &[TimedRun]) -> Interval {
    let of = |times: &[TimedRun]| times.iter().map(processor).collect::<Vec<f64>>();
    ratio(&of(without), &of(with))
}

/// The forecast of the same ratio.
fn forecast_share(forecast: &Forecast) -> f64 {
    forecast.seconds / forecast.seconds_now
}

/// The forecast saving, with its interval.
fn forecast_gain(forecast: &Forecast) -> Interval {
    let Forecast { seconds_now, seconds, low, high, .. } = *forecast;
    Interval { value: seconds_now - seconds, low: seconds_now - high, high: seconds_now - low }
}

/// What the pairs prove, as a sentence: of the time's share where enough pairs bound it, else of the time itself.
fn verdict(without: &[TimedRun], with: &[TimedRun]) -> String {
    let found = share(without, with);
    let (change, digits, unit) = match bound(found) {
        Some(_) => ([found.value, found.low, found.high].map(|share| (share - 1.0) * 100.0), 1, "%"),
        None => {
            let saved = gain(without, with, processor);
            let times: Vec<f64> = without.iter().map(processor).collect();
            let unit = TimeUnit::up_to(mean(&times));
            ([-saved.value, -saved.high, -saved.low].map(|seconds| unit.of(seconds)), 3, unit.symbol)
        }
    };
    let [value, least, most] = change.map(|change| format!("{:.digits$}", change.abs()));
    let signed = change.map(|change| format!("{change:+.digits$}").replace('-', "−"));
    match change {
        [_, _, high] if high < 0.0 => {
            format!("The plan saves {value} {unit} of processor time ({most} to {least} {unit}, at 90 %).")
        }
        [_, low, _] if low > 0.0 => {
            format!("The plan costs {value} {unit} of processor time ({least} to {most} {unit}, at 90 %).")
        }
        _ => format!(
            "Not proven: processor time changes by {} {unit} ({} to {} {unit}, at 90 %); more pairs (`--runs`) narrow \
             this.",
            signed[0], signed[1], signed[2]
        ),
    }
}

fn interval(Interval { value, low, high }: Interval) -> plans::Interval {
    plans::Interval::of(value, low, high)
}

/// An interval's ends, where known.
fn bound(Interval { low, high, .. }: Interval) -> Option<(f64, f64)> {
    (low.is_finite() && high.is_finite()).then_some((low, high))
}

fn part(found: Interval) -> Share {
    let ends = bound(found);
    let share = Some(found.value).filter(|share| share.is_finite());
    Share { share, low: ends.map(|ends| ends.0), high: ends.map(|ends| ends.1) }
}

/// The classes of figures other than images'.
const MEASURED: (Class, &[&str]) = (
    Class::Measured,
    &[
        "seconds",
        "processor_seconds",
        "seconds_saved",
        "processor_seconds_saved",
        "processor_share",
        "warmed_mib",
    ],
);
const MODELLED: (Class, &[&str]) =
    (Class::Modelled, &["forecast_processor_seconds_saved", "forecast_processor_share"]);

fn document(command: &[OsString], fitting: &FittedPlan, measured: &PairTimes) -> VerifyResult {
    let plan = &fitting.plan;
    let of = |run: &TimedRun| RunTimes { seconds: wall(run), processor_seconds: processor(run) };
    let PairTimes { without, with, run, missed, stopped, warmth } = measured;
    VerifyResult {
        schema: VERIFY_SCHEMA,
        plan: VerifiedPlan { program: plan.program.path.clone(), ranges: plan.ranges.len() },
        command: command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        verdict: verdict(without, with),
        end: end(run.timed.end),
        mode: fitting.mode.name(),
        without: without.iter().map(of).collect(),
        with: with.iter().map(of).collect(),
        stopped_by: stopped,
        warmed_mib: warmth.map(|warmth| warmth.mebibytes()),
        interval: "90 %, Student's, of paired differences",
        seconds_saved: interval(gain(without, with, wall)),
        processor_seconds_saved: interval(gain(without, with, processor)),
        processor_share: part(share(without, with)),
        forecast_processor_seconds_saved: plan.forecast.as_ref().map(forecast_gain).map(interval),
        forecast_processor_share: plan.forecast.as_ref().map(forecast_share),
        classes: classes(&[outcome::FIGURES, MEASURED, MODELLED]),
        in_effect: missed.is_none(),
        images: run.images.iter().map(|image| outcome::image(plan, image)).collect(),
        libraries: outcome::landings(fitting, run).documents(),
        other_programs: run.others.clone(),
        notes: fitting.notes.iter().cloned().chain(outcome::notes(fitting, run)).collect(),
    }
}

fn record(fitting: &FittedPlan, measured: &PairTimes) -> Value {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let forecast = fitting.plan.forecast.as_ref();
    json!({
        "when": history::utc(since),
        "program": fitting.plan.program.path,
        "build_id": fitting.plan.program.build_id,
        "arguments": fitting.plan.program.arguments,
        "kernel": kernel(),
        "mode": fitting.mode.name(),
        "pairs": measured.with.len(),
        "warmed_mib": measured.warmth.map(|warmth| warmth.mebibytes()),
        "processor_seconds_without": mean_of(&measured.without, processor),
        "processor_seconds_with": mean_of(&measured.with, processor),
        "processor_seconds_saved": interval(gain(&measured.without, &measured.with, processor)),
        "seconds_saved": interval(gain(&measured.without, &measured.with, wall)),
        "processor_share": part(share(&measured.without, &measured.with)),
        "forecast_processor_share": forecast.map(forecast_share),
        "forecast_processor_seconds": forecast.map(|forecast| forecast.seconds),
        "forecast_processor_low": forecast.map(|forecast| forecast.low),
        "forecast_processor_high": forecast.map(|forecast| forecast.high),
    })
}
