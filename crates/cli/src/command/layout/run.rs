//! `pagewalk layout run`: run a program with its libraries where a plan wants them.

mod dry;
mod result;

use super::fitting::Fitting;
use crate::arguments::LayoutRun;
use crate::error::{CliError, Code};
use crate::native::{exit_code, relay_signals};
use crate::output::{Output, say, write_json, write_to_stderr};
use crate::planned::{OR_DEFAULT, can_run_without, cannot_trace, does_not_fit, run_without};
use pagewalk_layout::files::Object;
use pagewalk_live::layout::{self, Image, LayoutError, Options, Relay, Run};
use pagewalk_live::tracing::LaunchError;
use result::Outcome;
use std::process::ExitCode;

pub fn run(arguments: LayoutRun) -> Result<ExitCode, CliError> {
    let apart = |path| Output::open_apart(path, [&*arguments.plan]);
    let file = arguments.data.output.as_deref().map(apart).transpose()?;
    if arguments.dry_run {
        return dry::run(&arguments, file);
    }
    let fitting = Fitting::new(&arguments.plan, &arguments.command[0], OR_DEFAULT);
    let prepared = fitting.and_then(|Fitting { plan, objects }| {
        let run = run_placed(&arguments, &objects)?;
        Ok(Outcome { plan, objects, run })
    });
    let outcome = match prepared {
        Err(error) if arguments.or_default && can_run_without(&error) => {
            return run_without(&arguments.command, arguments.data.quiet, &error);
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

fn run_placed(arguments: &LayoutRun, objects: &[Object]) -> Result<Run, CliError> {
    static RELAY: Relay = Relay::new();
    let signals = relay_signals(&RELAY)?;
    let options = Options {
        verify: arguments.verify,
        release: arguments.release,
        no_randomise: arguments.no_randomize,
    };
    let mut loaded = |image: &Image| {
        if let Some(landings) = image.at_start.as_ref().filter(|_| arguments.verify) {
            write_to_stderr(&result::table(image, objects, landings, "loader done"));
        }
    };
    let run = layout::run(&arguments.command, objects, options, &RELAY, &mut loaded);
    drop(signals);
    run.map_err(|error| match error {
        LayoutError::Launch(error @ LaunchError::Trace(_)) => cannot_trace(error),
        LayoutError::Program { .. } => does_not_fit(&error, OR_DEFAULT),
        error => CliError::new(Code::Failed, error),
    })
}

fn tell(arguments: &LayoutRun, message: impl std::fmt::Display) {
    if !arguments.data.quiet {
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
    let document = outcome.document(&arguments.plan, &arguments.command);
    write_json(&arguments.data, &document, file)
}
