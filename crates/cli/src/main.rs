//! The `pagewalk` command: parses arguments and calls the library; alone owns stdout and exit codes.

mod arguments;
mod command;
mod exit;
mod output;
mod signals;
mod terminal;

use arguments::{Command, Request};
use pagewalk::Error;
use std::process::ExitCode;

fn main() -> ExitCode {
    let line = arguments::read(std::env::args_os().collect()).unwrap_or_else(|end| end.exit());
    signals::survive_file_limits();
    let result = match line {
        Request::Nothing => command::start::run(),
        Request::Version => command::version::run(),
        Request::Command(command) => run(*command),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            output::say(&error);
            exit::by(error.fault)
        }
    }
}

fn run(command: Command) -> Result<ExitCode, Error> {
    match command {
        Command::Profile(arguments) => command::profile::run(arguments),
        Command::Record(arguments) => command::record::run(arguments),
        Command::Simulate(arguments) => command::simulate::run(arguments),
        Command::Sweep(arguments) => command::sweep::run(arguments),
        Command::Trap(arguments) => command::trap::run(arguments),
        Command::Contiguity(arguments) => command::contiguity::run(arguments),
        Command::Layout(arguments) => command::layout::run(arguments),
        Command::Advise(arguments) => command::advise::run(arguments),
        Command::Probe(arguments) => command::probe::run(arguments),
        Command::Apply(arguments) => command::plans::apply::run(arguments),
        Command::Verify(arguments) => command::plans::verify::run(arguments),
        Command::Undo(arguments) => command::plans::undo::run(arguments),
        Command::Promote(arguments) => command::promote::run(arguments),
        Command::Trace(arguments) => command::trace::run(arguments),
        Command::Machines(arguments) => command::machines::run(arguments),
        Command::Report(arguments) => command::report::run(arguments),
        Command::Schema(arguments) => command::schema::run(&arguments),
        Command::Doctor(arguments) => command::doctor::run(arguments),
        Command::Completions(arguments) => command::generate::completions(arguments),
        Command::Man(arguments) => command::generate::man(arguments),
    }
}
