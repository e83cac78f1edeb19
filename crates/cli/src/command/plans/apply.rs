//! `pagewalk apply`: a program with planned ranges on huge pages.

use super::fitting::Fitting;
use super::{attach, dry, outcome};
use crate::arguments::Apply;
use crate::error::{CliError, Code};
use crate::native::{exit_code, relay_signals};
use crate::output::end;
use crate::output::{Output, say, say_next, write_json, write_to_stderr};
use crate::planned::{OR_DEFAULT, can_run_without, cannot_trace, check_command, does_not_fit, run_without};
use pagewalk_live::pages::{self, Options, PagesError, Run};
use pagewalk_live::tracing::{LaunchError, Relay};
use pagewalk_report::documents::plans::{APPLY_SCHEMA, AppliedRun, ApplyResult};
use pagewalk_report::{Class, classes};
use std::process::ExitCode;

pub fn run(arguments: Apply) -> Result<ExitCode, CliError> {
    let apart = |path| Output::open_apart(path, [&*arguments.plan]);
    let file = arguments.data.output.as_deref().map(apart).transpose()?;
    if arguments.dry_run {
        return dry::run(&arguments, file);
    }
    if let Some(pid) = arguments.pid {
        return attach::run(&arguments, pid, file);
    }
    let prepared = Fitting::new(&arguments.plan).and_then(|fitting| {
        check_command(&arguments.command[0], OR_DEFAULT)?;
        let run = run_applied(&arguments, &fitting)?;
        Ok((fitting, run))
    });
    let (fitting, run) = match prepared {
        Err(error) if arguments.or_default && can_run_without(&error) => {
            return run_without(&arguments.command, arguments.data.quiet, &error);
        }
        other => other?,
    };
    publish(&arguments, &fitting, &run, file)?;
    match outcome::missed(&fitting.plan, &run) {
        None => {
            say_next(arguments.data.quiet, format!("pagewalk verify {} -- CMD", arguments.plan.display()))
        }
        Some(missed) if arguments.or_default => tell(&arguments, missed),
        Some(missed) => {
            return Err(CliError::new(Code::NotInEffect, missed)
                .or("--or-default ends with the program's own exit code all the same"));
        }
    }
    Ok(exit_code(run.end))
}

fn run_applied(arguments: &Apply, fitting: &Fitting) -> Result<Run, CliError> {
    static RELAY: Relay = Relay::new();
    fitting.notes.iter().for_each(|note| tell(arguments, note));
    let signals = relay_signals(&RELAY)?;
    let options = Options {
        program: fitting.program.clone(),
        keep_small: fitting.can_keep_small && !arguments.keep_others,
        or_default: arguments.or_default,
        release: arguments.release,
        silent: false,
    };
    let run = pages::run(&arguments.command, &fitting.plan, &options, &RELAY);
    drop(signals);
    run.map_err(failed)
}

/// What a failed run is told as.
pub fn failed(error: PagesError) -> CliError {
    match error {
        PagesError::Launch(error @ LaunchError::Trace(_)) => cannot_trace(error),
        PagesError::Program { .. } | PagesError::File { .. } => does_not_fit(&error, OR_DEFAULT),
        error => CliError::new(Code::Failed, error),
    }
}

fn tell(arguments: &Apply, message: impl std::fmt::Display) {
    if !arguments.data.quiet {
        say(message);
    }
}

fn publish(arguments: &Apply, fitting: &Fitting, run: &Run, file: Option<Output>) -> Result<(), CliError> {
    if !arguments.data.quiet {
        run.images.iter().for_each(|image| write_to_stderr(&outcome::table(&fitting.plan, image)));
    }
    outcome::notes(&fitting.plan, run).iter().for_each(|note| tell(arguments, note));
    write_json(&arguments.data, &document(arguments, fitting, run), file)
}

fn document(arguments: &Apply, fitting: &Fitting, run: &Run) -> ApplyResult {
    let plan = &fitting.plan;
    ApplyResult::Run(AppliedRun {
        schema: APPLY_SCHEMA,
        plan: outcome::plan_file(&arguments.plan, plan),
        command: arguments.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        end: end(run.end),
        seconds: run.seconds,
        processor_seconds: run.processor_seconds,
        resident_bytes: run.resident_bytes,
        classes: classes(&[outcome::FIGURES, (Class::Measured, &["seconds", "processor_seconds"])]),
        mode: fitting.mode.name(),
        in_effect: outcome::missed(plan, run).is_none(),
        images: run.images.iter().map(|image| outcome::image(plan, image)).collect(),
        other_programs: run.others.clone(),
        notes: fitting.notes.iter().cloned().chain(outcome::notes(plan, run)).collect(),
    })
}
