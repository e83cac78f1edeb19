//! Repeats a program at its own speed, as it is and under a plan, for `advise` and `verify`.

use super::fitting::FittedPlan;
use super::run::{RunOptions, failed};
use crate::error::{Error, Fault};
use crate::listener::{Listener, RelayGuard, SignalRelay};
use crate::native::asks_to_end;
use pagewalk_live::pages::{self, PagesRun};
use pagewalk_live::timing::{self, TimedRun, nowhere};
use pagewalk_live::tracing::Relay;
use pagewalk_live::warmth::Warmth;
use pagewalk_units::inheritance::pass_on;
use std::ffi::{CString, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

static RELAY: Relay = Relay::new();

/// A program and its input; its output is dropped.
pub struct Trial<'a> {
    pub command: &'a [OsString],
    pub input: &'a Path,
    /// Memory to use and free before each run, if requested.
    pub warmth: Option<Warmth>,
}

impl Trial<'_> {
    /// One run as it is, with these extra variables.
    pub fn plain(&self, variables: &[(&str, &str)]) -> Result<TimedRun, Error> {
        self.warm()?;
        let (program, words) = (&self.command[0], &self.command[1..]);
        let cannot = |error| Error::new(Fault::Failed, format!("cannot run {program:?}: {error}"));
        let mut command = Command::new(program);
        pass_on(&mut command).args(words).envs(variables.iter().copied());
        command.stdin(open_input(self.input)?).stdout(nowhere().map_err(cannot)?);
        timing::run(&mut command, &RELAY).map_err(cannot)
    }

    /// One run under a plan.
    pub fn planned(&self, fitting: &FittedPlan, options: RunOptions) -> Result<PagesRun, Error> {
        self.warm()?;
        let input = CString::new(self.input.as_os_str().as_bytes())
            .map_err(|_| Error::new(Fault::BadInput, format!("{:?} has a zero byte in it", self.input)))?;
        pages::run(self.command, &fitting.plan, &options.for_plan(fitting, Some(input)), &RELAY)
            .map_err(failed)
    }

    fn warm(&self) -> Result<(), Error> {
        let failed = |error| Error::new(Fault::Failed, format!("--warm: {error}"));
        self.warmth.map_or(Ok(()), |warmth| warmth.warm().map_err(failed))
    }
}

/// Opens a program's input.
pub fn open_input(path: &Path) -> Result<File, Error> {
    let cannot = |error| Error::new(Fault::BadInput, format!("--input {}: {error}", path.display()));
    File::open(path).map_err(cannot)
}

/// Passes signals on to the running program. Signals that ask to end also set `stop`: however the program reacts, it
/// does not run again.
pub fn relay_signals(stop: &'static AtomicBool, listener: &dyn Listener) -> Result<RelayGuard, Error> {
    let hand_on = move |signal| {
        let ends = asks_to_end(signal);
        stop.fetch_or(ends, Ordering::Relaxed);
        // Between runs, other signals are dropped.
        if ends || RELAY.runs() {
            RELAY.send(signal);
        }
    };
    let of_terminal = move |signal| {
        stop.store(true, Ordering::Relaxed);
        RELAY.keep(signal);
    };
    RELAY.clear();
    listener.relay(SignalRelay { signal: Box::new(hand_on), of_terminal: Box::new(of_terminal) })
}

/// Runs each of `kinds` once a round, every other round in reverse order, until `enough` returns a reason to stop. So
/// drifts of the host and after-effects of runs affect all kinds alike.
pub fn by_turns<S, R>(
    state: &mut S,
    kinds: usize,
    enough: impl Fn(&mut S, u64) -> Option<R>,
    run: impl Fn(&mut S, usize) -> Result<(), Error>,
) -> Result<R, Error> {
    let mut round = 0;
    loop {
        if let Some(why) = enough(state, round) {
            return Ok(why);
        }
        for turn in 0..kinds {
            run(state, if round % 2 == 0 { turn } else { kinds - 1 - turn })?;
        }
        round += 1;
    }
}
