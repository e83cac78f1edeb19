//! Records every process image of a program to a trace file of its own.

use crate::engine::{Live, Stream};
use crate::error::{Error, Fault};
use crate::listener::Listener;
use crate::output::Output;
use crate::stream::{Ending, WindowProgress, check_window, follow_ahead};
use crate::traces::trace_file::create;
pub use crate::traces::trace_file::output;
use pagewalk_capture::WindowSpec;
use pagewalk_report::documents::streams::{RECORD_SCHEMA, RecordResult, RecordedFile};
use pagewalk_trace::pwt::{Summary, Writer};
use pagewalk_trace::{Grain, Source, StreamHeader, ToPages};

use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::{Mutex, PoisonError};

/// One trace file, whether or not writing it succeeded.
pub struct WrittenTrace {
    number: u32,
    /// The file.
    pub path: PathBuf,
    /// Path of the program.
    pub program: String,
    /// The file's summary, or why it could not be written.
    pub outcome: std::io::Result<Summary>,
    /// What was lost of the stream.
    pub losses: Vec<String>,
    reached: WindowProgress,
}

/// Runs the program and records each process image: the first to `first`, the others to numbered files next to `path`.
/// Returns them in order of start.
///
/// # Errors
/// If the program cannot run or be followed, or never comes to the region of interest. Failed files are in the answer.
pub fn images(
    live: &Live,
    window: &WindowSpec,
    grain: Grain,
    path: &Path,
    first: Output,
    listener: &dyn Listener,
) -> Result<(Vec<WrittenTrace>, ExitStatus), Error> {
    let first = Mutex::new(Some(first));
    let written = Mutex::new(Vec::new());
    let status = live.run(listener, |source: Stream| {
        let number = source.inner.number();
        let first = first.lock().unwrap_or_else(PoisonError::into_inner).take_if(|_| number == 0);
        let one = write(source, window, grain, numbered(path, number), first);
        written.lock().unwrap_or_else(PoisonError::into_inner).push(one);
    })?;
    let mut written = written.into_inner().unwrap_or_else(PoisonError::into_inner);
    written.sort_by_key(|one| one.number);
    // A failed file ends its stream, which then says nothing of the region.
    if written.iter().all(|one| one.outcome.is_ok()) {
        check_window(window, WindowProgress::by_any(written.iter().map(|one| one.reached)), listener)?;
    }
    Ok((written, status))
}

fn write(
    source: Stream,
    window: &WindowSpec,
    grain: Grain,
    path: PathBuf,
    first: Option<Output>,
) -> WrittenTrace {
    let number = source.inner.number();
    let header = StreamHeader { grain, ..source.header().clone() };
    // Only now is there something to replace the first file's old contents with.
    let file = first.map_or_else(|| create(&path), Output::begin);
    let mut ending = Ending::default();
    let outcome = file.and_then(|file| Writer::with_thread(file, &header)).and_then(|mut writer| {
        ending = match grain {
            Grain::Byte => follow_ahead(source, window, &mut writer),
            Grain::Page => follow_ahead(source, window, &mut ToPages::new(&mut writer)),
        };
        writer.finish()
    });
    WrittenTrace {
        number,
        path,
        program: header.program,
        outcome,
        losses: ending.losses,
        reached: ending.reached,
    }
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

/// The first numbered file of an earlier recording, not one of the `written` ones.
pub fn older(first: &Path, written: &[WrittenTrace]) -> Option<PathBuf> {
    let next = written.last().map_or(1, |last| last.number + 1);
    Some(numbered(first, next)).filter(|path| path.exists())
}

/// Checks that every file was written.
///
/// # Errors
/// If not: the listener of the failure was told which.
pub fn check_written(written: &[WrittenTrace]) -> Result<(), Error> {
    match written.iter().all(|one| one.outcome.is_ok()) {
        true => Ok(()),
        false => Err(Error::new(Fault::Failed, "not everything could be written")
            .or("what was written up to then is whole and can be read; the program itself ran to its end")),
    }
}

/// All files as data.
pub fn document(written: &[WrittenTrace]) -> RecordResult {
    let row = |one: &WrittenTrace| {
        let summary = one.outcome.as_ref().ok();
        RecordedFile {
            file: one.path.to_string_lossy().into_owned(),
            program: one.program.clone(),
            references_data: summary.map(|summary| summary.references),
            block_executions: summary.map(|summary| summary.block_executions),
            bytes: summary.map(|summary| summary.bytes),
            losses: one.losses.clone(),
            error: one.outcome.as_ref().err().map(ToString::to_string),
        }
    };
    RecordResult { schema: RECORD_SCHEMA, files: written.iter().map(row).collect() }
}
