//! `pagewalk record`: runs a program and records its reference stream.

use crate::arguments::{GrainChoice, Record};
use crate::exit;
use crate::output::{print, say};
use crate::terminal::Terminal;
use pagewalk::engine::{Live, Noise};
use pagewalk::output::Output;
use pagewalk::recording::{WrittenTrace, document, images, older};
use pagewalk::report::documents;
use pagewalk::trace::Grain;
use pagewalk::{Error, Fault};
use std::process::ExitCode;

pub fn run(arguments: Record) -> Result<ExitCode, Error> {
    let terminal = Terminal { quiet: arguments.quiet };
    let first = Output::open_apart(&arguments.output, arguments.layout.as_deref())?;
    let live = Live::prepare(&arguments.command, arguments.layout.as_deref(), &terminal)?;
    let noise = match (arguments.quiet, arguments.verbose) {
        (true, _) => Noise::Quiet,
        (_, true) => Noise::Verbose,
        _ => Noise::Usual,
    };
    let live = live.with(noise, arguments.max_threads);
    let grain = match arguments.grain {
        GrainChoice::Byte => Grain::Byte,
        GrainChoice::Page => Grain::Page,
    };
    let window = arguments.region.into();
    let (written, status) = images(&live, &window, grain, &arguments.output, first, &terminal)?;
    let printed = if arguments.json { print(&documents::text(&document(&written))) } else { Ok(()) };
    let mut failed = false;
    for one in &written {
        failed |= report(one, arguments.quiet);
    }
    if let Some(older) = older(&arguments.output, &written) {
        say(format!("{} and what follows are of an earlier recording, not of this one", older.display()));
    }
    printed?;
    if failed {
        return Err(Error::new(Fault::Failed, "not everything could be written")
            .or("what was written up to then is whole and can be read; the program itself ran to its end"));
    }
    live.check_landed(&terminal)?;
    Ok(exit::as_child(status))
}

/// Reports one file; returns whether it failed.
fn report(one: &WrittenTrace, quiet: bool) -> bool {
    let path = one.path.display();
    one.losses.iter().for_each(|loss| say(format!("{path}: {loss}")));
    match &one.outcome {
        Ok(summary) if !quiet => {
            let records = summary.references + summary.block_executions;
            say(format!(
                "{path}: {}: {records} records, {:.1} MiB, {:.3} bytes a record; next: pagewalk simulate {path}",
                one.program,
                summary.bytes as f64 / f64::from(1 << 20),
                summary.bytes as f64 / records.max(1) as f64,
            ));
        }
        Ok(_) => {}
        Err(error) => say(format!("{path}: {error}")),
    }
    one.outcome.is_err()
}
