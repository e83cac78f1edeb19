//! `pagewalk layout`: where libraries lie, and where they should.

mod analyze;
mod fitting;
mod plan;
mod run;

use crate::arguments::{Layout, LayoutCommand};
use crate::error::CliError;
use std::process::ExitCode;

pub use fitting::Fitting;

pub fn run(arguments: Layout) -> Result<ExitCode, CliError> {
    match arguments.command {
        LayoutCommand::Analyze(arguments) => analyze::run(arguments),
        LayoutCommand::Plan(arguments) => plan::run(arguments),
        LayoutCommand::Run(arguments) => run::run(arguments),
    }
}
