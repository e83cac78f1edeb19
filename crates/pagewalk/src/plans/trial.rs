//! A program run again and again at its own speed, as it is and under a plan: what `advise` and `verify` measure.

use super::fitting::FittedPlan;
use super::run::{RunOptions, failed};
use crate::error::{Error, Fault};
use crate::listener::{Listener, SignalRelay, Watch};
use crate::native::asks_to_end;
use pagewalk_live::pages::{self, Run};
use pagewalk_live::timing::{self, TimedRun, nowhere};
use pagewalk_live::tracing::Relay;
use pagewalk_live::warmth::Warmth;
use std::ffi::{CString, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

static RELAY: Relay = Relay::new();

/// A program and what it reads; what it writes goes nowhere.
pub struct Trial<'a> {
    pub command: &'a [OsString],
    pub input: &'a Path,
    /// What is used and freed before each run, if that is asked for.
    pub warmth: Option<Warmth>,
}

impl Trial<'_> {
    /// One run as it is, with these variables besides.
    pub fn plain(&self, variables: &[(&str, &str)]) -> Result<TimedRun, Error> {
        self.warm()?;
        let (program, words) = (&self.command[0], &self.command[1..]);
        let cannot = |error| Error::new(Fault::Failed, format!("cannot run {program:?}: {error}"));
        let mut command = Command::new(program);
        command.args(words).envs(variables.iter().copied());
        command.stdin(open_input(self.input)?).stdout(nowhere().map_err(cannot)?);
        timing::run(&mut command, &RELAY).map_err(cannot)
    }

    /// One run under a plan.
    pub fn planned(&self, fitting: &FittedPlan, options: RunOptions) -> Result<Run, Error> {
        self.warm()?;
        let input = CString::new(self.input.as_os_str().as_bytes())
            .map_err(|_| Error::new(Fault::BadInput, format!("{:?} has a zero byte in it", self.input)))?;
        pages::run(self.command, &fitting.plan, &options.of(fitting, Some(input)), &RELAY).map_err(failed)
    }

    fn warm(&self) -> Result<(), Error> {
        let failed = |error| Error::new(Fault::Failed, format!("--warm: {error}"));
        self.warmth.map_or(Ok(()), |warmth| warmth.warm().map_err(failed))
    }
}

/// What a program reads.
pub fn open_input(path: &Path) -> Result<File, Error> {
    let cannot = |error| Error::new(Fault::BadInput, format!("--input {}: {error}", path.display()));
    File::open(path).map_err(cannot)
}

/// Hands signals on to the program that runs. Those that ask for an end have `stop` set: whatever the program makes of
/// them, it is not run again.
pub fn relay_signals(stop: &'static AtomicBool, listener: &dyn Listener) -> Result<Watch, Error> {
    let hand_on = move |signal| {
        let ends = asks_to_end(signal);
        stop.fetch_or(ends, Ordering::Relaxed);
        // Between runs, others are nobody's.
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

/// Runs each of `kinds` once a round, every other round in reverse order, until `enough` gives a reason to stop.
/// Changes of the host, and what a run leaves behind, so meet all kinds alike.
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
