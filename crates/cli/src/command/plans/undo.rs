//! `pagewalk undo`: returns the planned ranges of a running process to small pages.

use crate::arguments::Undo;
use crate::exit::ExitCode;
use crate::output::{say, write_json};
use pagewalk::Error;
use pagewalk::output::Output;
use pagewalk::plans::SplitProcess;

pub fn run(arguments: Undo) -> Result<ExitCode, Error> {
    let apart = |path| Output::open_apart(path, [&*arguments.plan]);
    let file = arguments.data.output.as_deref().map(apart).transpose()?;
    let split = SplitProcess::act(&arguments.plan, arguments.pid, arguments.dry_run)?;
    super::report(&arguments.data, &split.text(), arguments.dry_run)?;
    if !arguments.data.quiet {
        split.note().into_iter().for_each(say);
    }
    write_json(&arguments.data, &split.document(&arguments.plan), file)?;
    split.check().map(|()| ExitCode::SUCCESS)
}
