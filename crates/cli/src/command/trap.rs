//! `pagewalk trap`: run a program at its own speed and count a TLB's misses by page faults.

mod json;
mod text;

use crate::arguments::{BlindReplacement, Trap};
use crate::error::{CliError, Code};
use crate::machine::load_and_say;
use crate::native::{exit_code, relay_to_followed};
use crate::output::{Output, print, say, write_to_stderr};
use pagewalk_capture::check_program;
use pagewalk_live::timed::nowhere;
use pagewalk_live::tracing::{Interrupt, LaunchError};
use pagewalk_live::trap::{self, Changes, HostError, Options, Run, TrapArray, TrapError};
use pagewalk_report::documents;
use pagewalk_setassoc::Replacement;
use std::ffi::OsString;
use std::io::{Seek, SeekFrom};
use std::os::fd::AsFd;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Instant;

/// A run and what it is told with.
struct Outcome {
    machine: String,
    array: TrapArray,
    command: Vec<OsString>,
    run: Run,
    /// From the start of the program to its end, with us.
    run_seconds: f64,
    /// The same without us, if that was asked for.
    native_seconds: Option<f64>,
}

impl Outcome {
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
}

pub fn run(arguments: Trap) -> Result<ExitCode, CliError> {
    let machine = load_and_say(&arguments.machine, arguments.style.quiet)?;
    let array = TrapArray::of(&machine, changes(&arguments)?).map_err(|error| {
        CliError::new(Code::Usage, error)
            .or("`-m mips_r2000` is such a machine; --entries, --ways and --replacement change it")
    })?;
    check_program(&arguments.command[0]).map_err(|error| CliError::new(Code::Usage, error))?;
    trap::check_host().map_err(host_cannot)?;
    let file = arguments.output.as_deref().map(Output::open).transpose()?;
    let native_seconds = arguments.native.then(|| run_native(&arguments.command)).transpose()?;
    let begun = Instant::now();
    let run = run_trapped(&arguments, &array)?;
    let run_seconds = begun.elapsed().as_secs_f64();
    let command = arguments.command.clone();
    let outcome = Outcome { machine: machine.name, array, command, run, run_seconds, native_seconds };
    publish(&arguments, &outcome, file)?;
    for image in &outcome.run.images {
        let difference = image.checked.as_ref().and_then(|checked| checked.first_difference.as_ref());
        if let Some(difference) = difference {
            let place = format!("image {} ({}): {difference}", image.number, image.program);
            return Err(CliError::new(Code::Failed, format!("the check found a difference: {place}"))
                .or("this is a fault of pagewalk's: its counts of this run are wrong"));
        }
    }
    Ok(exit_code(outcome.run.end))
}

fn changes(arguments: &Trap) -> Result<Changes, CliError> {
    let replacement = match (arguments.replacement, arguments.seed) {
        (None, _) => None,
        (Some(BlindReplacement::Fifo), None) => Some(Replacement::Fifo),
        (Some(BlindReplacement::Fifo), Some(seed)) => {
            return Err(CliError::new(Code::Usage, format!("--seed {seed}: FIFO draws nothing"))
                .or("`--replacement random` does"));
        }
        (Some(BlindReplacement::Random), seed) => Some(Replacement::Random { seed: seed.unwrap_or(0) }),
    };
    Ok(Changes { entries: arguments.entries, ways: arguments.ways, replacement })
}

fn host_cannot(error: HostError) -> CliError {
    let enable = format!("to enable: {}; `pagewalk doctor` lists all that this host lacks", error.enable());
    CliError::new(Code::HostCannot, error).or(enable)
}

/// The program by itself: its time. What it reads, it reads again later.
fn run_native(words: &[OsString]) -> Result<f64, CliError> {
    let failed = |what: &str, error: std::io::Error| CliError::new(Code::Failed, format!("{what}: {error}"));
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

fn run_trapped(arguments: &Trap, array: &TrapArray) -> Result<Run, CliError> {
    let interrupt = Arc::new(Interrupt::new());
    let signals = relay_to_followed(Arc::clone(&interrupt))?;
    let run = trap::run(&arguments.command, array, Options { check: arguments.check }, &interrupt);
    drop(signals);
    run.map_err(|error| match error {
        TrapError::Host(error) => host_cannot(error),
        TrapError::Launch(error @ (LaunchError::Trace(_) | LaunchError::Filter(_))) => {
            CliError::new(Code::HostCannot, error)
                .or("in a container: allow ptrace and seccomp; a debugger's child cannot be traced")
        }
        TrapError::Launch(error) => CliError::new(Code::Failed, error),
        error => CliError::new(Code::Failed, error),
    })
}

fn publish(arguments: &Trap, outcome: &Outcome, file: Option<Output>) -> Result<(), CliError> {
    let json = || documents::text(&json::document(outcome));
    let printed = if arguments.style.json {
        print(&json())
    } else {
        write_to_stderr(&text::render(outcome, arguments.style.verbose));
        Ok(())
    };
    // Whatever became of the printing: the result took its time.
    if let Some(file) = file {
        let path = file.write(json().as_bytes())?;
        if !arguments.style.quiet {
            say(format!("result written to {}", path.display()));
        }
    }
    printed
}
