//! `pagewalk record`: runs a program and records its reference stream.

use crate::arguments::{GrainChoice, Record};
use crate::exit;
use crate::exit::ExitCode;
use crate::output::{print, say, say_next};
use crate::terminal::Terminal;
use pagewalk::Error;
use pagewalk::engine::{Live, Noise};
use pagewalk::recording::{WrittenTrace, check_written, document, images, older, output};
use pagewalk::report::documents;
use pagewalk::shell::quoted;
use pagewalk::trace::Grain;
use pagewalk::trace::pwt::Summary;

pub fn run(arguments: Record) -> Result<ExitCode, Error> {
    let terminal = Terminal { quiet: arguments.quiet };
    let first = output(&arguments.output, arguments.layout.as_deref())?;
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
    written.iter().for_each(|one| report(one, arguments.quiet));
    suggest(&written, arguments.quiet);
    if let Some(older) = older(&arguments.output, &written) {
        say(format!("{} and higher numbers are of an earlier recording, not of this one", older.display()));
    }
    printed?;
    check_written(&written)?;
    live.check_landed(&terminal)?;
    Ok(exit::as_child(status))
}

/// References and executions of blocks.
fn records(summary: &Summary) -> u64 {
    summary.references + summary.block_executions
}

/// Suggests the next step for the longest trace: a script or a compiler driver starts first and does next to nothing.
fn suggest(written: &[WrittenTrace], quiet: bool) {
    // The first of equals.
    let whole = written.iter().rev().filter_map(|one| Some((records(one.outcome.as_ref().ok()?), one)));
    let Some((_, longest)) = whole.max_by_key(|&(records, _)| records) else { return };
    let path = quoted(&longest.path);
    let why = match written.len() {
        1 => String::new(),
        count => format!("   (the longest of {count}: {})", longest.program),
    };
    say_next(quiet, format!("pagewalk simulate {path}{why}"));
}

/// Reports one file.
fn report(one: &WrittenTrace, quiet: bool) {
    let path = one.path.display();
    one.losses.iter().for_each(|loss| say(format!("{path}: {loss}")));
    match &one.outcome {
        Ok(summary) if !quiet => {
            let records = records(summary);
            say(format!(
                "{path}: {}: {records} records, {:.1} MiB, {:.3} bytes a record",
                one.program,
                summary.bytes as f64 / f64::from(1 << 20),
                summary.bytes as f64 / records.max(1) as f64,
            ));
        }
        Ok(_) => {}
        Err(error) => say(format!("{path}: {error}")),
    }
}
