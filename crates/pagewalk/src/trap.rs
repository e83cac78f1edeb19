//! Runs a program at its own speed, counting a TLB's misses by page faults.

mod document;
mod text;

use crate::error::{Error, Fault};
use crate::listener::Listener;
use crate::native::relay_to_followed;
use pagewalk_capture::check_program;
use pagewalk_live::timing::nowhere;
use pagewalk_live::tracing::{Interrupt, LaunchError};
use pagewalk_live::trap::{self, HostError, TrapArray, TrapError, TrapOptions, TrapRun};
use pagewalk_report::documents::trap::TrapResult;
use pagewalk_setassoc::Replacement;
use pagewalk_translate::MachineSpec;
use pagewalk_units::inheritance::pass_on;
use std::ffi::OsString;
use std::io::{Seek, SeekFrom};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

pub use pagewalk_live::trap::Changes;

/// A program that is ready to run under faults.
pub struct TrapProgram {
    machine: String,
    array: TrapArray,
    command: Vec<OsString>,
}

impl TrapProgram {
    /// Checks the program, that the machine's first-level TLB depends only on what a host can see, and that this host
    /// can do it. Runs nothing yet.
    ///
    /// # Errors
    /// If a check fails.
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

    /// Runs the program. `native` first times it once by itself, for the slowdown. `check` compares each decision with
    /// the simulator's own array.
    ///
    /// # Errors
    /// If it cannot run.
    pub fn run(self, native: bool, check: bool, listener: &dyn Listener) -> Result<TrapOutcome, Error> {
        let TrapProgram { machine, array, command } = self;
        let native_seconds = native.then(|| run_native(&command)).transpose()?;
        let begun = Instant::now();
        let run = run_trapped(&command, &array, TrapOptions { check }, listener)?;
        let run_seconds = begun.elapsed().as_secs_f64();
        Ok(TrapOutcome { machine, array, command, run, run_seconds, native_seconds })
    }
}

/// A run, with its context.
pub struct TrapOutcome {
    machine: String,
    array: TrapArray,
    command: Vec<OsString>,
    /// What was measured.
    pub run: TrapRun,
    /// From the program's start to its end, under faults.
    run_seconds: f64,
    /// The same without faults, if requested.
    native_seconds: Option<f64>,
}

impl TrapOutcome {
    fn slowdown(&self) -> Option<f64> {
        self.native_seconds.map(|native| self.run_seconds / native)
    }

    /// The seed of random replacement; none for other policies.
    fn seed(&self) -> Option<u64> {
        match self.array.replacement {
            Replacement::Random { seed } => Some(seed),
            _ => None,
        }
    }

    fn misses(&self) -> u64 {
        self.run.images.iter().map(|image| image.misses).sum()
    }

    /// The cost of a miss to the program, from its run time; needs enough misses to show.
    fn microseconds_per_miss(&self) -> Option<f64> {
        const MISSES_MIN: u64 = 1000;
        let native = self.native_seconds.filter(|_| self.misses() >= MISSES_MIN)?;
        Some((self.run_seconds - native) * 1e6 / self.misses() as f64)
    }

    /// As text; `verbose` lists every process image with its mappings.
    pub fn text(&self, verbose: bool) -> String {
        text::render(self, verbose)
    }

    /// As data.
    pub fn document(&self) -> TrapResult {
        document::build(self)
    }

    /// Checks that the simulator's own array decided alike, if requested.
    ///
    /// # Errors
    /// The first difference.
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

/// Times the program by itself.
fn run_native(words: &[OsString]) -> Result<f64, Error> {
    let failed = |what: &str, error: std::io::Error| Error::new(Fault::Failed, format!("{what}: {error}"));
    let input = std::io::stdin().as_fd().try_clone_to_owned().map_err(|e| failed("its input", e))?;
    let mut input = std::fs::File::from(input);
    let is_file = input.metadata().is_ok_and(|metadata| metadata.is_file());
    let position = if is_file { input.stream_position().map_err(|e| failed("its input", e))? } else { 0 };
    let mut command = Command::new(&words[0]);
    let output = nowhere().map_err(|e| failed("its output", e))?;
    pass_on(&mut command).args(&words[1..]).stdout(output).stderr(Stdio::null());
    if !is_file {
        // A pipe or a terminal cannot be read twice; the counted run gets it.
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
    options: TrapOptions,
    listener: &dyn Listener,
) -> Result<TrapRun, Error> {
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
