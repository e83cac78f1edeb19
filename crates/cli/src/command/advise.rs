//! `pagewalk advise`: what a program gains from huge pages, and a plan.

use crate::arguments::{Advise, Style};
use crate::exit::ExitCode;
use crate::output::{print, say, say_next, text_options};
use crate::signals::{STOPPED, note_stops};
use crate::terminal::Terminal;
use pagewalk::advice::{
    AdviceOptions, NOTHING_PAYS, ProcessAdvice, ProcessOptions, ProcessWatch, SampledOptions, advise,
    of_samples,
};
use pagewalk::output::Output;
use pagewalk::report::documents;
use pagewalk::report::huge_pages::{render_text, to_json};
use pagewalk::shell::{quoted, typed};
use pagewalk::{Error, Fault};
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

pub fn run(mut arguments: Advise) -> Result<ExitCode, Error> {
    let inputs =
        [&arguments.trace, &arguments.samples, &arguments.probe, &arguments.input].map(Option::as_deref);
    let apart = |path| Output::open_apart(path, inputs.into_iter().flatten());
    let output = arguments.output.as_deref().map(apart).transpose()?;
    if let Some(pid) = arguments.pid {
        return of_process(arguments, pid, output);
    }
    if let Some(file) = arguments.samples.take() {
        return from_samples(arguments, file, output);
    }
    if let Some(trace) = arguments.trace.as_ref().filter(|_| arguments.seconds.is_empty()) {
        return Err(lacks_seconds(trace));
    }
    let (style, command) = (arguments.style, typed(&arguments.command));
    let options = AdviceOptions {
        trace: arguments.trace,
        seconds: arguments.seconds,
        command: arguments.command,
        input: arguments.input,
        runs: arguments.runs,
        warm: arguments.warm,
        no_trial: arguments.no_trial,
        budget: arguments.budget,
        probe: arguments.probe,
        machines: arguments.model.machines,
        thp: arguments.model.thp.map(Into::into),
    };
    let advice = advise(&options, &Terminal { quiet: style.quiet })?;
    let text = if style.json {
        to_json(&advice.result)
    } else {
        render_text(&advice.result, &text_options(style.verbose, io::stdout().is_terminal()))
    };
    let printed = print(&text);
    // Even if printing failed: the plan took time to make.
    let plan = advice.plan()?.ok_or(NOTHING_PAYS);
    write_plan(output, plan, style.quiet, |path| format!("pagewalk verify {path} {command}"))?;
    printed.map(|()| ExitCode::SUCCESS)
}

/// The error for a trace alone: it does not say how long the program takes on this host.
fn lacks_seconds(trace: &Path) -> Error {
    let trace = trace.display();
    let why = format!("{trace}: a trace does not say how long its program takes on this host");
    Error::new(Fault::Usage, why).or(format!(
        "give the processor time of each run that you timed, `user` plus `sys` of `time`: pagewalk advise {trace} \
         --seconds 1.21,1.19; or have the program run: pagewalk advise -- CMD"
    ))
}

/// Advises on a running process, by sampled misses.
fn of_process(arguments: Advise, pid: i32, output: Option<Output>) -> Result<ExitCode, Error> {
    let Advise { probe, budget, watch, style, .. } = arguments;
    let terminal = Terminal { quiet: style.quiet };
    let watch = ProcessWatch::prepare(&ProcessOptions { pid, probe, budget, watch }, &terminal)?;
    let _noted = note_stops()?;
    let advice = watch.run(&STOPPED, &terminal)?;
    publish(&advice, style, output, |path| format!("pagewalk apply {path} --pid {pid}"))
}

/// Advises on a process by a file of samples.
fn from_samples(arguments: Advise, file: PathBuf, output: Option<Output>) -> Result<ExitCode, Error> {
    let Advise { probe, budget, style, .. } = arguments;
    let options = SampledOptions { file, probe, budget };
    let advice = of_samples(&options, &Terminal { quiet: style.quiet })?;
    publish(&advice, style, output, |path| format!("pagewalk verify {path} -- CMD"))
}

/// Prints advice on a process, and writes its plan.
fn publish(
    advice: &ProcessAdvice,
    style: Style,
    output: Option<Output>,
    next: impl FnOnce(&str) -> String,
) -> Result<ExitCode, Error> {
    let text = match style.json {
        true => documents::text(&advice.document()),
        false => advice.text(style.verbose),
    };
    let printed = print(&text);
    // Even if printing failed: the plan took time to make.
    write_plan(output, advice.plan(), style.quiet, next)?;
    printed.map(|()| ExitCode::SUCCESS)
}

/// Writes the plan if asked to, and suggests `next`, or says why there is no plan.
fn write_plan(
    output: Option<Output>,
    plan: Result<String, &str>,
    quiet: bool,
    next: impl FnOnce(&str) -> String,
) -> Result<(), Error> {
    let Some(output) = output else {
        if plan.is_ok() {
            say_next(quiet, "give -o plan.toml too, for a plan that `apply` and `verify` take");
        }
        return Ok(());
    };
    let plan = match plan {
        Ok(plan) => plan,
        Err(why_none) => {
            let older = match output.was_there() {
                true => format!("; {} was there before and stays as it is", output.path().display()),
                false => String::new(),
            };
            say(format!("{why_none}, so no plan is written{older}"));
            return Ok(());
        }
    };
    let path = quoted(&output.write(plan.as_bytes())?);
    if !quiet {
        say(format!("plan written to {path}; next: {}", next(&path)));
    }
    Ok(())
}
