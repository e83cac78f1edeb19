//! The `pagewalk` command: parses arguments and calls the library; alone owns stdout and exit codes.
//!
//! The binary and the Python package's script both call [`main`].

mod arguments;
mod command;
mod exit;
mod output;
mod signals;
mod terminal;

use arguments::{Command, Request};
use exit::ExitCode;
use pagewalk::Error;
use pagewalk::study::StudyJobs;
use std::ffi::OsString;
use std::num::NonZeroUsize;

/// Runs a study's jobs on the workers of a Dask scheduler at `HOST:PORT`, each on this many threads.
pub type OnDask<'a> = &'a dyn Fn(StudyJobs, &str, NonZeroUsize) -> Result<StudyJobs, Error>;

/// Runs the command with these words, the program's name first; returns its exit code. Ends the process itself if the
/// words are wrong, or ask for help. Without `on_dask`, the Python package is asked to do that.
pub fn main(words: Vec<OsString>, on_dask: Option<OnDask<'_>>) -> u8 {
    let line = arguments::read(words).unwrap_or_else(|end| end.exit());
    signals::survive_file_limits();
    let result = match line {
        Request::Nothing => command::start::run(),
        Request::Version => command::version::run(),
        Request::Command(command) => run(*command, on_dask),
    };
    let code = result.unwrap_or_else(|error| {
        output::say(&error);
        exit::by(error.fault)
    });
    code.number()
}

fn run(command: Command, on_dask: Option<OnDask<'_>>) -> Result<ExitCode, Error> {
    match command {
        Command::Profile(arguments) => command::profile::run(arguments),
        Command::Record(arguments) => command::record::run(arguments),
        Command::Simulate(arguments) => command::simulate::run(arguments),
        Command::Sweep(arguments) => command::sweep::run(arguments, on_dask),
        Command::Trap(arguments) => command::trap::run(arguments),
        Command::Contiguity(arguments) => command::contiguity::run(arguments),
        Command::Samples(arguments) => command::samples::run(arguments),
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
