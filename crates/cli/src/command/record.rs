//! `pagewalk record`: run a program and keep its reference stream.

use crate::arguments::{Record, Region};
use crate::error::{CliError, Code};
use crate::live::{self, Live, Stream};
use crate::output::{Output, say};
use crate::process::{Ending, explain_empty_region, follow_ahead};
use pagewalk_trace::Source;
use pagewalk_trace::pwt::{Summary, Writer};
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
    region_begun: bool,
}

pub fn run(arguments: Record) -> Result<ExitCode, CliError> {
    let first = Output::open_apart(&arguments.output, arguments.layout.as_deref())?;
    let live = Live::prepare(&arguments.command, arguments.layout.as_deref())?;
    let (written, status) = images(&live, &arguments.region, &arguments.output, first)?;
    explain_empty_region(&arguments.region, written.iter().any(|one| one.region_begun));
    let mut failed = false;
    for one in &written {
        failed |= report(one, arguments.quiet);
    }
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
    path: &Path,
    first: Output,
) -> Result<(Vec<Written>, ExitStatus), CliError> {
    let first = Mutex::new(Some(first));
    let written = Mutex::new(Vec::new());
    let status = live.run(|source: Stream| {
        let number = source.inner.number();
        let first = first.lock().unwrap_or_else(PoisonError::into_inner).take_if(|_| number == 0);
        let one = write(source, region, numbered(path, number), first);
        written.lock().unwrap_or_else(PoisonError::into_inner).push(one);
    })?;
    let mut written = written.into_inner().unwrap_or_else(PoisonError::into_inner);
    written.sort_by_key(|one| one.number);
    Ok((written, status))
}

fn write(source: Stream, region: &Region, path: PathBuf, first: Option<Output>) -> Written {
    let (number, program) = (source.inner.number(), source.header().program.clone());
    // The first file is emptied only now, when there is something to put in its place.
    let file = first.map_or_else(|| File::create(&path), Output::begin);
    let mut ending = Ending::default();
    let outcome = file.and_then(|file| Writer::with_thread(file, source.header())).and_then(|mut writer| {
        ending = follow_ahead(source, region, &mut writer);
        writer.finish()
    });
    Written { number, path, program, outcome, losses: ending.losses, region_begun: ending.region_begun }
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

/// Says what became of a file; returns whether it failed.
fn report(one: &Written, quiet: bool) -> bool {
    let path = one.path.display();
    one.losses.iter().for_each(|loss| say(format!("{path}: {loss}")));
    match &one.outcome {
        Ok(summary) if !quiet => {
            let records = summary.references + summary.block_executions;
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
    one.outcome.is_err()
}
