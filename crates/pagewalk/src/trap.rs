//! A program at its own speed, with a TLB's misses counted by page faults.

mod document;
mod text;

use crate::error::{Error, Fault};
use crate::listener::Listener;
use crate::native::relay_to_followed;
use pagewalk_capture::check_program;
use pagewalk_live::timing::nowhere;
use pagewalk_live::tracing::{Interrupt, LaunchError};
use pagewalk_live::trap::{self, HostError, Options, Run, TrapArray, TrapError};
use pagewalk_report::documents::trap::TrapResult;
use pagewalk_setassoc::Replacement;
use pagewalk_translate::MachineSpec;
use std::ffi::OsString;
use std::io::{Seek, SeekFrom};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

pub use pagewalk_live::trap::Changes;

/// A program about to run under faults.
pub struct TrapProgram {
    machine: String,
    array: TrapArray,
    command: Vec<OsString>,
}

impl TrapProgram {
    /// Checks the program, that a host can see all that the first-level TLB of the machine decides by, and that this
    /// host can. Nothing runs yet.
    ///
    /// # Errors
    /// If one of these is not so.
    pub fn prepare(
        machine: &MachineSpec,
        changes: Changes,
        command: &[OsString],
    ) -> Result<TrapProgram, Error> {
        let array = TrapArray::of(machine, changes).map_err(|error| {
            Error::new(Fault::Usage, error)
                .or("`-m mips_r2000` is such a machine; --entries, --ways and --replacement change it")
        })?;
        check_program(&command[0]).map_err(|error| Error::new(Fault::Usage, error))?;
        trap::check_host().map_err(host_cannot)?;
        Ok(TrapProgram { machine: machine.name.clone(), array, command: command.to_vec() })
    }

    /// Runs it. `native`: also once without us before, to tell the slowdown; `check`: with each decision compared with
    /// the simulator's own array.
    ///
    /// # Errors
    /// If it could not be run.
    pub fn run(self, native: bool, check: bool, listener: &dyn Listener) -> Result<TrapOutcome, Error> {
        let TrapProgram { machine, array, command } = self;
        let native_seconds = native.then(|| run_native(&command)).transpose()?;
        let begun = Instant::now();
        let run = run_trapped(&command, &array, Options { check }, listener)?;
        let run_seconds = begun.elapsed().as_secs_f64();
        Ok(TrapOutcome { machine, array, command, run, run_seconds, native_seconds })
    }
}

/// A run and what it is told with.
pub struct TrapOutcome {
    machine: String,
    array: TrapArray,
    command: Vec<OsString>,
    /// What was seen.
    pub run: Run,
    /// From the start of the program to its end, with us.
    run_seconds: f64,
    /// The same without us, if that was asked for.
    native_seconds: Option<f64>,
}

impl TrapOutcome {
    fn slowdown(&self) -> Option<f64> {
        self.native_seconds.map(|native| self.run_seconds / native)
    }

    /// Where random replacement began; none of what draws nothing.
    fn seed(&self) -> Option<u64> {
        match self.array.replacement {
            Replacement::Random { seed } => Some(seed),
            _ => None,
        }
    }

    fn misses(&self) -> u64 {
        self.run.images.iter().map(|image| image.misses).sum()
    }

    /// What a miss cost the program, as its run time shows it; needs misses enough to stand out of it.
    fn microseconds_per_miss(&self) -> Option<f64> {
        const MISSES_MIN: u64 = 1000;
        let native = self.native_seconds.filter(|_| self.misses() >= MISSES_MIN)?;
        Some((self.run_seconds - native) * 1e6 / self.misses() as f64)
    }

    /// For people; `verbose`: every process image, and its mappings.
    pub fn text(&self, verbose: bool) -> String {
        text::render(self, verbose)
    }

    /// As data.
    pub fn document(&self) -> TrapResult {
        document::of(self)
    }

    /// Checks that the simulator's own array decided alike, where that was asked for.
    ///
    /// # Errors
    /// If it did not: the first difference.
    pub fn check(&self) -> Result<(), Error> {
        for image in &self.run.images {
            let difference = image.checked.as_ref().and_then(|checked| checked.first_difference.as_ref());
            if let Some(difference) = difference {
                let place = format!("image {} ({}): {difference}", image.number, image.program);
                return Err(Error::new(Fault::Failed, format!("the check found a difference: {place}"))
                    .or("this is a fault of pagewalk's: its counts of this run are wrong"));
            }
        }
        Ok(())
    }
}

fn host_cannot(error: HostError) -> Error {
    let enable = format!("to enable: {}; `pagewalk doctor` lists all that this host lacks", error.enable());
    Error::new(Fault::HostCannot, error).or(enable)
}

/// The program by itself: its time. What it reads, it reads again later.
fn run_native(words: &[OsString]) -> Result<f64, Error> {
    let failed = |what: &str, error: std::io::Error| Error::new(Fault::Failed, format!("{what}: {error}"));
    let input = std::io::stdin().as_fd().try_clone_to_owned().map_err(|e| failed("its input", e))?;
    let mut input = std::fs::File::from(input);
    let is_file = input.metadata().is_ok_and(|metadata| metadata.is_file());
    let position = if is_file { input.stream_position().map_err(|e| failed("its input", e))? } else { 0 };
    let mut command = Command::new(&words[0]);
    let output = nowhere().map_err(|e| failed("its output", e))?;
    command.args(&words[1..]).stdout(output).stderr(Stdio::null());
    if !is_file {
        // A pipe or a terminal cannot be read twice; the run that counts gets it.
        command.stdin(Stdio::null());
    }
    let begun = Instant::now();
    command.status().map_err(|e| failed("running the program natively", e))?;
    let seconds = begun.elapsed().as_secs_f64();
    if is_file {
        input.seek(SeekFrom::Start(position)).map_err(|e| failed("its input", e))?;
    }
    Ok(seconds)
}

fn run_trapped(
    command: &[OsString],
    array: &TrapArray,
    options: Options,
    listener: &dyn Listener,
) -> Result<Run, Error> {
    let interrupt = Arc::new(Interrupt::new());
    let signals = relay_to_followed(Arc::clone(&interrupt), listener)?;
    let run = trap::run(command, array, options, &interrupt);
    drop(signals);
    run.map_err(|error| match error {
        TrapError::Host(error) => host_cannot(error),
        TrapError::Launch(error @ (LaunchError::Trace(_) | LaunchError::Filter(_))) => {
            Error::new(Fault::HostCannot, error)
                .or("in a container: allow ptrace and seccomp; a debugger's child cannot be traced")
        }
        TrapError::Launch(error) => Error::new(Fault::Failed, error),
        error => Error::new(Fault::Failed, error),
    })
}
