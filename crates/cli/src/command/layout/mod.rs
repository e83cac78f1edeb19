//! `pagewalk layout`: where libraries lie, and where they should.

mod analyze;
mod plan;
mod run;

use crate::arguments::{Layout, LayoutCommand};
use crate::exit::ExitCode;
use pagewalk::Error;

pub fn run(arguments: Layout) -> Result<ExitCode, Error> {
    match arguments.command {
        LayoutCommand::Analyze(arguments) => analyze::run(arguments),
        LayoutCommand::Plan(arguments) => plan::run(arguments),
        LayoutCommand::Run(arguments) => run::run(arguments),
    }
}
