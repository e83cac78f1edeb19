//! Opens traces, with progress.

pub mod conversion;
pub mod inputs;
pub mod soundness;
pub mod trace_file;

use crate::error::Error;
use crate::listener::{Bar, CountingReader, Listener, SilentListener};
use pagewalk_trace::StreamHeader;
use pagewalk_trace::pwt::Reader;
use std::fmt::Display;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A trace reader that counts its bytes.
pub type TraceReader = Reader<CountingReader<File>>;

/// Opens a trace, with progress to the listener.
///
/// # Errors
/// If it does not exist or is no trace.
pub fn open(trace: &Path, listener: &dyn Listener) -> Result<TraceReader, Error> {
    open_for(trace, &trace.display().to_string(), listener)
}

/// As `open`; `what` names the purpose.
pub(crate) fn open_for(trace: &Path, what: &str, listener: &dyn Listener) -> Result<TraceReader, Error> {
    let (file, bytes) = open_file(trace)?;
    read(trace, file, listener.bytes(bytes, what))
}

/// Opens a trace for its header only.
pub(crate) fn open_header(trace: &Path) -> Result<TraceReader, Error> {
    let (file, _) = open_file(trace)?;
    read(trace, file, Arc::new(SilentListener))
}

/// Opens traces to read in turns, with one progress bar for all.
pub(crate) fn open_all(traces: &[PathBuf], listener: &dyn Listener) -> Result<Vec<TraceReader>, Error> {
    let files = traces.iter().map(|trace| open_file(trace)).collect::<Result<Vec<_>, _>>()?;
    let bytes = files.iter().map(|(_, bytes)| bytes).sum();
    let what = match traces {
        [one] => one.display().to_string(),
        several => format!("{} traces", several.len()),
    };
    let bar = listener.bytes(bytes, &what);
    traces.iter().zip(files).map(|(trace, (file, _))| read(trace, file, Arc::clone(&bar))).collect()
}

/// A trace's file and its bytes.
fn open_file(trace: &Path) -> Result<(File, u64), Error> {
    let file = File::open(trace).map_err(|e| bad(trace, &e))?;
    let bytes = file.metadata().map_or(0, |meta| meta.len());
    Ok((file, bytes))
}

/// Advice where a file is no trace.
pub(crate) const TRACE_SOURCES: &str =
    "a trace is made by `pagewalk record`, or of another tool's file by `pagewalk trace import`";

fn read(trace: &Path, file: File, bar: Arc<dyn Bar>) -> Result<TraceReader, Error> {
    let reader = Reader::new(CountingReader::new(file, bar));
    reader.map_err(|e| bad(trace, &e).or(TRACE_SOURCES))
}

/// The error for a bad trace.
pub(crate) fn bad(trace: &Path, error: &dyn Display) -> Error {
    Error::of_file(trace, format!("{}: {error}", trace.display()))
}

/// Refuses a trace that can be read only once; `what` needs to read it again.
pub(crate) fn check_file(trace: &Path, what: &str) -> Result<(), Error> {
    let about = trace.metadata().map_err(|error| bad(trace, &error))?;
    if !about.is_file() {
        let why = format!("{what} reads a trace twice, and this is no file");
        return Err(bad(trace, &why).or("write it to a file first"));
    }
    Ok(())
}

/// Notes that data addresses are only pages, if they are.
pub fn tell_grain(trace: &Path, header: &StreamHeader, listener: &dyn Listener) {
    if !header.grain.is_byte() {
        let trace = trace.display();
        listener.warn(&format!(
            "{trace}: recorded with --grain page: addresses of data are the first bytes of pages"
        ));
    }
}
