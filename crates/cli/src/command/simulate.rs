//! `pagewalk simulate`: simulates machines over recorded streams, or over a running program.

use super::profile;
use crate::arguments::Simulate;
use crate::exit;
use crate::exit::ExitCode;
use crate::output::{publish, result_files};
use crate::terminal::Terminal;
use pagewalk::experiment::{Experiment, policies, sharing};
use pagewalk::{Error, Fault, machines};
use std::path::PathBuf;

pub fn run(arguments: Simulate) -> Result<ExitCode, Error> {
    let terminal = Terminal { quiet: arguments.style.quiet };
    let experiment = Experiment {
        machines: machines::chosen(&arguments.model.machines, &terminal)?,
        thp: arguments.model.thp.map(Into::into),
        window: arguments.region.into(),
        areas: arguments.areas,
        what_if: arguments.what_if,
        sharing: sharing(arguments.quantum, &arguments.switch_at, arguments.global_files)?,
        kernels: policies(&arguments.kernels)?,
        structure: arguments.structure.as_deref().map(machines::structure).transpose()?,
        cores: arguments.cores,
        by_traps: arguments.by_traps,
        layout: arguments.layout,
    };
    experiment.check(&arguments.traces)?;
    let inputs = arguments.traces.iter().map(PathBuf::as_path).chain(experiment.layout.as_deref());
    let files = result_files(&arguments.outputs, &inputs.collect::<Vec<_>>())?;
    if !arguments.command.is_empty() {
        let (command, threads) = (&arguments.command, arguments.max_threads);
        return profile::program(&experiment, command, threads, arguments.style, files);
    }
    let outcome = experiment.traces(&arguments.traces, &terminal)?;
    publish(&outcome.result, arguments.style, files, false)?;
    experiment.check_prices(&outcome.result)?;
    Ok(if outcome.cut { exit::by(Fault::BadInput) } else { ExitCode::SUCCESS })
}
