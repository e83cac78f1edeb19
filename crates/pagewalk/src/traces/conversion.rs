//! Converts traces to other tools' formats and to text, and back.

use super::inputs::Inputs;
use super::{TraceReader, open, tell_grain, trace_file};
use crate::error::{Error, Fault};
use crate::listener::Listener;
use crate::output::{Output, cannot_write};
use crate::stream::{Ending, check_window, follow, follow_ahead};
use pagewalk_capture::export::{EXPORTERS, Export, Exporter, each_row, exporter, packed};
use pagewalk_capture::{WindowSpec, import};
use pagewalk_trace::pwt::{Summary, Writer};
use pagewalk_trace::{Analysis, Batch, Event, Source, StreamHeader};
use pagewalk_units::RefIndex;
use pagewalk_units::names::choice;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Writes a trace to `out` as text: one reference per line, with events in between as JSON. The answer includes errors
/// of writing.
///
/// # Errors
/// If the trace cannot be opened, or nothing of it is in the window.
pub fn dump(
    trace: &Path,
    window: &WindowSpec,
    out: impl Write + Send,
    listener: &dyn Listener,
) -> Result<(Ending, io::Result<()>), Error> {
    let mut dump = Dump { out, outcome: Ok(()) };
    let reader = open(trace, listener)?;
    tell_grain(trace, reader.header(), listener);
    let ending = follow(reader, window, &mut dump);
    let written = dump.outcome.and_then(|()| dump.out.flush());
    if written.is_ok() {
        check_window(window, ending.reached, listener)?;
    }
    Ok((ending, written))
}

/// Converts other tools' files, which are one experiment, to a trace: in the named format or the one recognised from
/// their beginnings. Notes what it leaves out.
///
/// # Errors
/// If there is no reference in them, or the trace cannot be written.
pub fn import(
    inputs: Inputs,
    format: Option<&str>,
    output: &Path,
    listener: &dyn Listener,
) -> Result<(Ending, Summary), Error> {
    let Inputs { name, paths, files } = inputs;
    let importer = |name: &str| {
        let names = || import::IMPORTERS.iter().map(|importer| importer.name);
        import::importer(name).ok_or_else(|| no_format(name, names()))
    };
    let format = format.map(importer).transpose()?;
    let file = trace_file::output(output, paths.iter().map(PathBuf::as_path))?;
    // The name may stand for several files, so no file is close to it.
    let wrong = |why: &dyn Display| Error::new(Fault::BadInput, format!("{}: {why}", name.display()));
    let opened = import::open(files, format).map_err(|e| wrong(&e))?;
    let import::Opened { format, import: import::Import { source, notes }, passed_over } = opened;
    // Formats do not name the program, and results of several imports are told apart by it.
    let program = paths.first().and_then(|path| path.file_name()).filter(|name| *name != "-");
    let program = program.map_or_else(|| "unknown".to_owned(), |name| name.to_string_lossy().into_owned());
    let header = StreamHeader { program, ..source.header().clone() };
    let mut imported = ImportWriter { header, output: Some(file), early: Vec::new(), writer: None };
    let ending = follow_ahead(source, &WindowSpec::default(), &mut imported);
    let Some(writer) = imported.writer else {
        let why = ending.losses.first().map_or("there is no reference in it", String::as_str);
        return Err(wrong(&why).or(format!("references are read from {}", format.about)));
    };
    let others = passed_over
        .iter()
        .map(|other| format!("{other} is not of format {} and is passed over", format.name));
    let told = others.chain(notes.sentences().into_iter().map(|note| format!("{}: {note}", name.display())));
    told.for_each(|note| listener.warn(&note));
    let summary = writer.and_then(Writer::finish).map_err(|e| cannot_write(output, &e))?;
    Ok((ending, summary))
}

/// Writes a trace in another tool's format to a file, packed as the end of its name asks for, or to standard output.
/// Notes what the format cannot say, with counts. The answer includes errors of writing.
///
/// # Errors
/// If there is no such format, or a file cannot be opened.
pub fn export(
    trace: &Path,
    format: &str,
    output: Option<&Path>,
    listener: &dyn Listener,
) -> Result<(Ending, io::Result<()>), Error> {
    let exporter =
        exporter(format).ok_or_else(|| no_format(format, EXPORTERS.iter().map(|exporter| exporter.name)))?;
    let reader = open(trace, listener)?;
    tell_grain(trace, reader.header(), listener);
    let out: Box<dyn Write + Send> = match output {
        Some(path) => {
            let file = Output::open_apart(path, [trace])?;
            Box::new(file.begin().map_err(|e| cannot_write(path, &e))?)
        }
        None => Box::new(io::stdout()),
    };
    Ok(write(trace, reader, exporter, output.unwrap_or(Path::new("-")), out, listener))
}

/// The error for a format that is none of `names`.
fn no_format<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Error {
    let names: Vec<&str> = names.collect();
    Error::new(Fault::Usage, format!("no format `{name}`")).or(choice(name, &names))
}

fn write(
    trace: &Path,
    reader: TraceReader,
    format: &Exporter,
    name: &Path,
    out: Box<dyn Write + Send>,
    listener: &dyn Listener,
) -> (Ending, io::Result<()>) {
    let begun = packed(name, out).and_then(|out| Export::begin(format, reader.header(), out));
    let mut export = match begun {
        Ok(export) => export,
        Err(error) => return (Ending::default(), Err(error)),
    };
    let ending = follow_ahead(reader, &WindowSpec::default(), &mut export);
    let written = export.finish().map(|omissions| {
        let said = omissions.sentences().into_iter();
        said.for_each(|said| listener.warn(&format!("{} as {}: {said}", trace.display(), format.name)));
    });
    (ending, written)
}

/// Begins its trace at the first reference: until then the old file keeps its contents.
struct ImportWriter {
    header: StreamHeader,
    output: Option<Output>,
    /// Events before the first reference.
    early: Vec<(RefIndex, Event)>,
    writer: Option<io::Result<Writer<File>>>,
}

impl ImportWriter {
    /// Most events to hold.
    const EARLY_MAX: usize = 1 << 16;

    fn writer(&mut self) -> Option<&mut Writer<File>> {
        if let Some(output) = self.output.take() {
            self.writer = Some(output.begin().and_then(|file| Writer::with_thread(file, &self.header)));
            for (at, event) in std::mem::take(&mut self.early) {
                self.on_event(at, &event);
            }
        }
        self.writer.as_mut()?.as_mut().ok()
    }
}

impl Analysis for ImportWriter {
    fn on_batch(&mut self, batch: &Batch<'_>) {
        self.writer().into_iter().for_each(|writer| writer.on_batch(batch));
    }

    fn on_event(&mut self, at: RefIndex, event: &Event) {
        if self.output.is_some() && self.early.len() < ImportWriter::EARLY_MAX {
            self.early.push((at, event.clone()));
        } else {
            self.writer().into_iter().for_each(|writer| writer.on_event(at, event));
        }
    }

    fn is_done(&self) -> bool {
        matches!(self.writer, Some(Err(_)))
    }
}

/// Writes references one a line: thread, kind, address, bytes; events as JSON after a `#`.
struct Dump<W: Write> {
    out: W,
    outcome: io::Result<()>,
}

impl<W: Write> Dump<W> {
    fn batch(&mut self, batch: &Batch<'_>) -> io::Result<()> {
        each_row(batch, |row| {
            writeln!(self.out, "{} {} {:x} {}", row.thread, row.kind.name(), row.address, row.bytes)
        })
    }
}

impl<W: Write + Send> Analysis for Dump<W> {
    fn is_done(&self) -> bool {
        self.outcome.is_err()
    }

    fn on_batch(&mut self, batch: &Batch<'_>) {
        if self.outcome.is_ok() {
            self.outcome = self.batch(batch);
        }
    }

    fn on_event(&mut self, _at: RefIndex, event: &Event) {
        if self.outcome.is_ok() {
            let text = serde_json::to_string(event).map_err(io::Error::from);
            self.outcome = text.and_then(|text| writeln!(self.out, "# {text}"));
        }
    }
}
