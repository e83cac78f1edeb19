//! `pagewalk record`: run a program and keep its reference stream.

use crate::arguments::{GrainChoice, Record, Region};
use crate::error::{CliError, Code};
use crate::live::{self, Live, Noise, Stream};
use crate::output::{Output, print, say};
use crate::process::{Ending, Reached, explain_region, follow_ahead};
use pagewalk_report::documents;
use pagewalk_report::documents::streams::{RECORD_SCHEMA, RecordResult, Recorded};
use pagewalk_trace::pwt::{Summary, Writer};
use pagewalk_trace::{Grain, Source, StreamHeader, ToPages};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};
use std::sync::{Mutex, PoisonError};

/// One trace file, written or not.
pub struct Written {
    number: u32,
    /// The file.
    pub path: PathBuf,
    /// Path of the program.
    pub program: String,
    /// What is in the file, or why it could not be written.
    pub outcome: std::io::Result<Summary>,
    /// What was lost of the stream.
    pub losses: Vec<String>,
    region: Reached,
}

pub fn run(arguments: Record) -> Result<ExitCode, CliError> {
    let first = Output::open_apart(&arguments.output, arguments.layout.as_deref())?;
    let live = Live::prepare(&arguments.command, arguments.layout.as_deref())?;
    let noise = match (arguments.quiet, arguments.verbose) {
        (true, _) => Noise::Quiet,
        (_, true) => Noise::Verbose,
        _ => Noise::Usual,
    };
    let live = live.told(noise, arguments.max_threads);
    let grain = match arguments.grain {
        GrainChoice::Byte => Grain::Byte,
        GrainChoice::Page => Grain::Page,
    };
    let (written, status) = images(&live, &arguments.region, grain, &arguments.output, first)?;
    explain_region(&arguments.region, Reached::by_any(written.iter().map(|one| one.region)));
    let printed = if arguments.json { print(&document(&written)) } else { Ok(()) };
    let mut failed = false;
    for one in &written {
        failed |= report(one, arguments.quiet);
    }
    if let Some(older) = older(&arguments.output, &written) {
        say(format!("{} and what follows are of an earlier recording, not of this one", older.display()));
    }
    printed?;
    if failed {
        return Err(CliError::new(Code::Failed, "not everything could be written")
            .or("what was written up to then is whole and can be read; the program itself ran to its end"));
    }
    live.check_landed()?;
    Ok(live::exit_code(status))
}

/// Runs the program; every process image goes to a file of its own, `first` for the first, numbered beside `path` for
/// the others. They come in order of start.
pub fn images(
    live: &Live,
    region: &Region,
    grain: Grain,
    path: &Path,
    first: Output,
) -> Result<(Vec<Written>, ExitStatus), CliError> {
    let first = Mutex::new(Some(first));
    let written = Mutex::new(Vec::new());
    let status = live.run(|source: Stream| {
        let number = source.inner.number();
        let first = first.lock().unwrap_or_else(PoisonError::into_inner).take_if(|_| number == 0);
        let one = write(source, region, grain, numbered(path, number), first);
        written.lock().unwrap_or_else(PoisonError::into_inner).push(one);
    })?;
    let mut written = written.into_inner().unwrap_or_else(PoisonError::into_inner);
    written.sort_by_key(|one| one.number);
    Ok((written, status))
}

fn write(source: Stream, region: &Region, grain: Grain, path: PathBuf, first: Option<Output>) -> Written {
    let number = source.inner.number();
    let header = StreamHeader { grain, ..source.header().clone() };
    // The first file is emptied only now, when there is something to put in its place.
    let file = first.map_or_else(|| File::create(&path), Output::begin);
    let mut ending = Ending::default();
    let outcome = file.and_then(|file| Writer::with_thread(file, &header)).and_then(|mut writer| {
        ending = match grain {
            Grain::Byte => follow_ahead(source, region, &mut writer),
            Grain::Page => follow_ahead(source, region, &mut ToPages::new(&mut writer)),
        };
        writer.finish()
    });
    Written { number, path, program: header.program, outcome, losses: ending.losses, region: ending.region }
}

/// `T.pwt` for the first image, `T.1.pwt`, `T.2.pwt` … for those that follow.
fn numbered(first: &Path, number: u32) -> PathBuf {
    match number {
        0 => first.to_owned(),
        n => first.with_extension(match first.extension() {
            Some(extension) => format!("{n}.{}", extension.to_string_lossy()),
            None => n.to_string(),
        }),
    }
}

/// The first numbered file that was there before and is none of the `written` ones.
fn older(first: &Path, written: &[Written]) -> Option<PathBuf> {
    let next = written.last().map_or(1, |last| last.number + 1);
    Some(numbered(first, next)).filter(|path| path.exists())
}

/// All files as data.
fn document(written: &[Written]) -> String {
    let row = |one: &Written| {
        let summary = one.outcome.as_ref().ok();
        Recorded {
            file: one.path.to_string_lossy().into_owned(),
            program: one.program.clone(),
            references_data: summary.map(|summary| summary.references),
            block_executions: summary.map(|summary| summary.block_executions),
            bytes: summary.map(|summary| summary.bytes),
            losses: one.losses.clone(),
            error: one.outcome.as_ref().err().map(ToString::to_string),
        }
    };
    documents::text(&RecordResult { schema: RECORD_SCHEMA, files: written.iter().map(row).collect() })
}

/// Says what became of a file; returns whether it failed.
fn report(one: &Written, quiet: bool) -> bool {
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
