//! `pagewalk profile`: runs a program and shows where address translation costs time.

use crate::arguments::{Profile, Style};
use crate::exit;
use crate::exit::ExitCode;
use crate::output::{ResultFiles, publish, result_files};
use crate::terminal::Terminal;
use pagewalk::engine::Live;
use pagewalk::{Error, Experiment, machines};
use std::ffi::OsString;

pub fn run(arguments: Profile) -> Result<ExitCode, Error> {
    let terminal = Terminal { quiet: arguments.style.quiet };
    let experiment = Experiment {
        thp: arguments.model.thp.map(Into::into),
        window: arguments.region.into(),
        what_if: true,
        layout: arguments.layout,
        ..Experiment::new(machines::chosen(&arguments.model.machines, &terminal)?)
    };
    experiment.check(&[])?;
    let files = result_files(&arguments.outputs, experiment.layout.as_deref().as_slice())?;
    program(&experiment, &arguments.command, arguments.max_threads, arguments.style, files)
}

/// Runs a program; returns its exit code.
pub fn program(
    experiment: &Experiment,
    command: &[OsString],
    max_threads: Option<u32>,
    style: Style,
    files: ResultFiles,
) -> Result<ExitCode, Error> {
    let terminal = Terminal { quiet: style.quiet };
    let live = Live::prepare(command, experiment.layout.as_deref(), &terminal)?;
    let live = live.with(style.into(), max_threads);
    let (result, status) = experiment.program(&live, &terminal)?;
    publish(&result, style, files, true)?;
    experiment.check_prices(&result)?;
    live.check_landed(&terminal)?;
    Ok(exit::as_child(status))
}
