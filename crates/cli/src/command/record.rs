//! `pagewalk record`: run a program and keep its reference stream.

use crate::arguments::Record;
use crate::error::{CliError, Code};
use crate::live::{self, Live};
use crate::output::Output;
use crate::process::follow;
use pagewalk_capture::RingSource;
use pagewalk_trace::Source;
use pagewalk_trace::pwt::{Summary, Writer};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

/// One trace file, written or not.
struct Written {
    number: u32,
    path: PathBuf,
    program: String,
    outcome: std::io::Result<Summary>,
    losses: Vec<String>,
}

pub fn run(arguments: Record) -> Result<ExitCode, CliError> {
    let (file, path) = Output::open(&arguments.output)?.into_parts();
    let first = Mutex::new(Some(file));
    let live = Live::prepare(&arguments.command)?;
    let written = Mutex::new(Vec::new());
    let status = live.run(|source: RingSource| {
        let number = source.number();
        let file = first.lock().unwrap_or_else(PoisonError::into_inner).take_if(|_| number == 0);
        let one = write(source, &arguments, number, &path, file);
        written.lock().unwrap_or_else(PoisonError::into_inner).push(one);
    })?;
    let mut written = written.into_inner().unwrap_or_else(PoisonError::into_inner);
    written.sort_by_key(|one| one.number);
    let mut failed = false;
    for one in &written {
        failed |= report(one, arguments.style.quiet);
    }
    if failed {
        return Err(CliError::new(Code::Failed, "not everything could be written")
            .or("what was written up to then is whole and can be read; the program itself ran to its end"));
    }
    Ok(live::exit_code(status))
}

fn write(source: RingSource, arguments: &Record, number: u32, first: &Path, file: Option<File>) -> Written {
    let path = numbered(first, number);
    let program = source.header().program.clone();
    let file = match file {
        // Emptied only now, when there is something to put in its place.
        Some(file) => file.set_len(0).map(|()| file),
        None => File::create(&path),
    };
    let mut losses = Vec::new();
    let outcome = file.and_then(|file| Writer::new(file, source.header())).and_then(|mut writer| {
        losses = follow(source, &arguments.region, &mut writer, || {}).losses;
        writer.finish()
    });
    Written { number, path, program, outcome, losses }
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
    one.losses.iter().for_each(|loss| eprintln!("pagewalk: {path}: {loss}"));
    match &one.outcome {
        Ok(summary) if !quiet => {
            let records = summary.references + summary.block_executions;
            eprintln!(
                "pagewalk: {path}: {}: {records} records, {:.1} MiB, {:.3} bytes a record",
                one.program,
                summary.bytes as f64 / f64::from(1 << 20),
                summary.bytes as f64 / records.max(1) as f64,
            );
        }
        Ok(_) => {}
        Err(error) => eprintln!("pagewalk: {path}: {error}"),
    }
    one.outcome.is_err()
}
