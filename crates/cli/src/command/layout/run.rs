//! `pagewalk layout run`: run a program with its libraries where a plan wants them.

mod result;

use super::fitting::{Fitting, does_not_fit};
use crate::arguments::LayoutRun;
use crate::error::{CliError, Code};
use crate::native::{exit_code, relay_signals};
use crate::output::{Output, print, say, write_to_stderr};
use pagewalk_layout::files::Object;
use pagewalk_live::layout::{self, HostError, Image, LayoutError, Options, Relay, Run};
use pagewalk_live::tracing::LaunchError;
use result::Outcome;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// What to do with a plan that does not fit.
const OTHERWISE: &str = "start it without: --or-default";

pub fn run(arguments: LayoutRun) -> Result<ExitCode, CliError> {
    let file = arguments.output.as_deref().map(Output::open).transpose()?;
    let fitting = Fitting::new(&arguments.plan, &arguments.command[0], OTHERWISE);
    let prepared = fitting.and_then(|Fitting { plan, objects }| {
        let run = run_placed(&arguments, &objects)?;
        Ok(Outcome { plan, objects, run })
    });
    let outcome = match prepared {
        Err(error) if arguments.or_default && error.code != Code::Usage && error.code != Code::Failed => {
            return run_without(&arguments, &error);
        }
        other => other?,
    };
    publish(&arguments, &outcome, file)?;
    if let Some(missed) = outcome.missed() {
        if !arguments.or_default {
            return Err(CliError::new(Code::NotInEffect, missed)
                .or("--or-default ends with the program's own exit code all the same"));
        }
        tell(&arguments, missed);
    }
    Ok(exit_code(outcome.run.end))
}

fn host_cannot(error: &HostError) -> CliError {
    CliError::new(Code::HostCannot, error)
        .or(format!("to enable: {}; or start it without: --or-default", error.enable()))
}

fn run_placed(arguments: &LayoutRun, objects: &[Object]) -> Result<Run, CliError> {
    static RELAY: Relay = Relay::new();
    let handle = relay_signals(&RELAY)?;
    let options = Options {
        verify: arguments.verify,
        release: arguments.release,
        no_randomise: arguments.no_randomize,
        or_default: arguments.or_default,
    };
    let mut loaded = |image: &Image| {
        if let Some(landings) = image.at_start.as_ref().filter(|_| arguments.verify) {
            write_to_stderr(&result::table(image, objects, landings, "loader done"));
        }
    };
    let run = layout::run(&arguments.command, objects, options, &RELAY, &mut loaded);
    handle.close();
    run.map_err(|error| match error {
        LayoutError::Launch(error @ LaunchError::Trace(_)) => host_cannot(&HostError::NoPtrace(error)),
        LayoutError::Program { .. } => does_not_fit(&error, OTHERWISE),
        error => CliError::new(Code::Failed, error),
    })
}

/// The program in our place, as if we had never been there.
fn run_without(arguments: &LayoutRun, error: &CliError) -> Result<ExitCode, CliError> {
    tell(arguments, format!("{error}\n  it runs without the plan"));
    let failed = Command::new(&arguments.command[0]).args(&arguments.command[1..]).exec();
    Err(CliError::new(Code::Failed, format!("cannot start {:?}: {failed}", arguments.command[0])))
}

fn tell(arguments: &LayoutRun, message: impl std::fmt::Display) {
    if !arguments.quiet {
        say(message);
    }
}

fn publish(arguments: &LayoutRun, outcome: &Outcome, file: Option<Output>) -> Result<(), CliError> {
    if arguments.verify {
        for image in &outcome.run.images {
            if let Some(landings) = &image.at_end {
                write_to_stderr(&result::table(image, &outcome.objects, landings, "at the end"));
            }
        }
    }
    outcome.notes().into_iter().for_each(|note| tell(arguments, note));
    if !arguments.json && file.is_none() {
        return Ok(());
    }
    let json = format!("{:#}\n", outcome.document(&arguments.plan, &arguments.command));
    let printed = if arguments.json { print(&json) } else { Ok(()) };
    // Whatever became of the printing.
    let written = file.map_or(Ok(()), |file| {
        let path = file.write(json.as_bytes())?;
        tell(arguments, format!("result written to {}", path.display()));
        Ok(())
    });
    printed.and(written)
}
