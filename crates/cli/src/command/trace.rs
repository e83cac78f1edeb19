//! `pagewalk trace`: info, check, dump, import, export.

use super::simulate::open;
use crate::arguments::{Format, Region, Trace, TraceCommand};
use crate::error::{CliError, Code};
use crate::output::{Output, cannot_write, print, say, unless_gone};
use crate::process::follow;
use pagewalk_capture::{LackeyWriter, Text, import};
use pagewalk_report::documents;
use pagewalk_report::documents::streams::{TRACE_CHECK_SCHEMA, TraceCheckResult};
use pagewalk_report::printable;
use pagewalk_trace::check::{Checker, Finding, Severity};
use pagewalk_trace::pwt::{Info, Writer, info};
use pagewalk_trace::{Analysis, Batch, Event, Grain, Source, StreamHeader};
use pagewalk_units::{Kind, RefIndex};
use serde::Serialize;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

pub fn run(arguments: Trace) -> Result<ExitCode, CliError> {
    match arguments.command {
        TraceCommand::Info { json, trace } => show_info(&trace, json),
        TraceCommand::Check { json, trace } => check(&trace, json),
        TraceCommand::Dump { region, trace } => dump(&trace, &region),
        TraceCommand::Import { format, output, input } => import(&input, format.as_deref(), &output),
        TraceCommand::Export { format: Format::Lackey, output, trace } => export(&trace, output.as_deref()),
    }
}

/// What `info` tells as data.
#[derive(Serialize)]
struct Told<'a> {
    schema: &'static str,
    #[serde(flatten)]
    info: &'a Info,
}

fn show_info(trace: &Path, json: bool) -> Result<ExitCode, CliError> {
    let info = read_info(trace)?;
    if json {
        let value = serde_json::to_string_pretty(&Told { schema: "pagewalk.trace-info/1", info: &info });
        print(&(value.map_err(|e| CliError::new(Code::Failed, e))? + "\n"))?;
    } else {
        print(&info_text(trace, &info))?;
    }
    Ok(if info.damage.is_none() { ExitCode::SUCCESS } else { ExitCode::from(Code::BadInput as u8) })
}

fn read_info(trace: &Path) -> Result<Info, CliError> {
    let bad = |e: &dyn std::fmt::Display| CliError::new(Code::BadInput, format!("{}: {e}", trace.display()));
    let file = File::open(trace).map_err(|e| bad(&e))?;
    info(BufReader::new(file)).map_err(|e| bad(&e))
}

fn info_text(trace: &Path, info: &Info) -> String {
    let records = info.references.saturating_add(info.block_executions);
    let header = &info.header;
    let mut out = format!("{}: version {}, {} bytes\n", trace.display(), info.version, info.bytes);
    let mut line = |name: &str, value: String| out += &format!("  {name:<18} {}\n", printable(&value));
    line(
        "program",
        if header.arguments.is_empty() { header.program.clone() } else { header.arguments.join(" ") },
    );
    line("process", format!("{} (parent {})", header.pid, header.parent));
    line("engine", header.engine.clone());
    line("host", format!("{}, Linux {}, THP {}", header.cpu, header.kernel, header.thp));
    line("instructions", info.instructions.to_string());
    line(
        "data references",
        match header.grain {
            Grain::Byte => info.references.to_string(),
            Grain::Page => format!("{}, of which only the pages are known (--grain page)", info.references),
        },
    );
    line("block executions", info.block_executions.to_string());
    line("different blocks", info.blocks.to_string());
    line("records", format!("{records}, {:.3} bytes each", info.bytes_per_record));
    line("chunks", format!("{} of {} frames", info.chunks, info.frames));
    let events: Vec<String> = info.events.iter().map(|(name, count)| format!("{name} {count}")).collect();
    line("events", events.join(", "));
    if let Some(damage) = &info.damage {
        line("damage", damage.clone());
    }
    out
}

/// Says what breaks a rule. Warnings are worth knowing but leave the trace sound.
fn check(trace: &Path, json: bool) -> Result<ExitCode, CliError> {
    let mut checker = Checker::new();
    let mut ending = follow(open(trace, false)?, &Region::default(), &mut checker);
    // Reading from the begin does without the pointer to the index at the file's end. A pipe has no end to look at.
    if !ending.cut
        && trace.metadata().is_ok_and(|about| about.is_file())
        && let Some(damage) = read_info(trace)?.damage
    {
        ending.cut = true;
        ending.losses.push(damage);
    }
    let findings = checker.finish();
    let errors = findings.iter().filter(|finding| finding.rule.severity() == Severity::Error).count();
    if json {
        let told: Vec<String> = findings.iter().map(Finding::to_string).collect();
        let result = TraceCheckResult {
            schema: TRACE_CHECK_SCHEMA,
            trace: trace.to_string_lossy().into_owned(),
            rules_broken: errors,
            findings: told,
            whole: !ending.cut,
            losses: ending.losses.clone(),
        };
        print(&documents::text(&result))?;
    } else {
        let mut out: String = findings.iter().map(|finding| printable(&finding.to_string()) + "\n").collect();
        out += &match (errors, ending.cut) {
            (0, false) => format!("{}: sound\n", trace.display()),
            (0, true) => format!("{}: sound as far as it can be read\n", trace.display()),
            (n, _) => format!("{}: {n} rules broken\n", trace.display()),
        };
        print(&out)?;
    }
    let readable = damage(trace, &ending.losses, ending.cut);
    Ok(if errors > 0 { ExitCode::from(Code::BadInput as u8) } else { readable })
}

fn dump(trace: &Path, region: &Region) -> Result<ExitCode, CliError> {
    let mut dump = Dump { out: BufWriter::with_capacity(1 << 20, io::stdout()), outcome: Ok(()) };
    let reader = open(trace, true)?;
    tell_grain(trace, reader.header());
    let ending = follow(reader, region, &mut dump);
    let outcome = dump.outcome.and_then(|()| dump.out.flush());
    unless_gone(outcome)?;
    Ok(damage(trace, &ending.losses, ending.cut))
}

fn import(input: &Path, format: Option<&str>, output: &Path) -> Result<ExitCode, CliError> {
    let bad = |e: &dyn std::fmt::Display| CliError::new(Code::BadInput, format!("{}: {e}", input.display()));
    let mut reader: Text = if input == Path::new("-") {
        Box::new(BufReader::new(io::stdin()))
    } else {
        Box::new(BufReader::with_capacity(1 << 20, File::open(input).map_err(|e| bad(&e))?))
    };
    if reader.fill_buf().map_err(|e| bad(&e))?.is_empty() {
        return Err(bad(&"the file is empty"));
    }
    let file = Output::open_apart(output, [input])?;
    let (importer, import::Import { source, notes }) =
        import::open(reader, format.and_then(import::importer)).map_err(|e| bad(&e))?;
    let mut imported = Imported { header: source.header().clone(), output: Some(file), writer: None };
    let ending = follow(source, &Region::default(), &mut imported);
    let Some(writer) = imported.writer else {
        let why = ending.losses.first().map_or("there is no reference in it", String::as_str);
        return Err(bad(&why).or(format!("lines of references are {}", importer.about())));
    };
    notes.sentences().iter().for_each(|note| say(format!("{}: {note}", input.display())));
    let summary = writer.and_then(Writer::finish).map_err(|e| cannot_write(output, &e))?;
    let records = summary.references + summary.block_executions;
    let path = output.display();
    say(format!("{path}: {records} records; next: pagewalk simulate {path}"));
    Ok(damage(input, &ending.losses, ending.cut))
}

/// A trace that is begun with the first reference: until then nothing is lost of what the file held.
struct Imported {
    header: StreamHeader,
    output: Option<Output>,
    writer: Option<io::Result<Writer<File>>>,
}

impl Imported {
    fn writer(&mut self) -> Option<&mut Writer<File>> {
        if let Some(output) = self.output.take() {
            self.writer = Some(output.begin().and_then(|file| Writer::new(file, &self.header)));
        }
        self.writer.as_mut()?.as_mut().ok()
    }
}

impl Analysis for Imported {
    fn on_batch(&mut self, batch: &Batch<'_>) {
        self.writer().into_iter().for_each(|writer| writer.on_batch(batch));
    }

    fn on_event(&mut self, at: RefIndex, event: &Event) {
        self.writer().into_iter().for_each(|writer| writer.on_event(at, event));
    }

    fn is_done(&self) -> bool {
        matches!(self.writer, Some(Err(_)))
    }
}

fn export(trace: &Path, output: Option<&Path>) -> Result<ExitCode, CliError> {
    let reader = open(trace, output.is_none())?;
    tell_grain(trace, reader.header());
    let out: Box<dyn Write + Send> = match output {
        Some(path) => {
            let file = Output::open_apart(path, [trace])?;
            Box::new(file.begin().map_err(|e| cannot_write(path, &e))?)
        }
        None => Box::new(io::stdout()),
    };
    let mut writer = LackeyWriter::new(BufWriter::with_capacity(1 << 20, out));
    let ending = follow(reader, &Region::default(), &mut writer);
    let written = writer.finish().and_then(|mut out| out.flush());
    match output {
        Some(path) => written.map_err(|e| cannot_write(path, &e))?,
        None => unless_gone(written)?,
    }
    Ok(damage(trace, &ending.losses, ending.cut))
}

/// Says where addresses of data are none.
pub fn tell_grain(trace: &Path, header: &StreamHeader) {
    if !header.grain.is_byte() {
        let trace = trace.display();
        say(format!("{trace}: recorded with --grain page: addresses of data are the first bytes of pages"));
    }
}

fn damage(input: &Path, losses: &[String], cut: bool) -> ExitCode {
    losses.iter().for_each(|loss| say(format!("{}: {loss}", input.display())));
    if cut { ExitCode::from(Code::BadInput as u8) } else { ExitCode::SUCCESS }
}

/// Prints references one a line: thread, kind, address, bytes; events as JSON after a `#`.
struct Dump<W: Write> {
    out: W,
    outcome: io::Result<()>,
}

impl<W: Write> Dump<W> {
    fn batch(&mut self, batch: &Batch<'_>) -> io::Result<()> {
        let thread = batch.thread.0;
        for (i, span) in batch.spans.iter().enumerate() {
            let block = batch.blocks.get(span.block);
            let mut next = span.first as usize;
            for (index, instruction) in block.instructions.iter().enumerate() {
                writeln!(self.out, "{thread} fetch {:x} {}", instruction.address.0, instruction.length)?;
                let sites = block.sites.iter().filter(|site| usize::from(site.instruction) == index).count();
                next = self.references(batch, next..next + sites)?;
            }
            self.references(batch, next..batch.span_end(i))?;
        }
        Ok(())
    }

    fn references(&mut self, batch: &Batch<'_>, range: std::ops::Range<usize>) -> io::Result<usize> {
        let end = range.end;
        for record in &batch.refs[range] {
            let kind = match record.kind() {
                Kind::Fetch => "fetch",
                Kind::Load => "load",
                Kind::Store => "store",
                Kind::Modify => "modify",
            };
            let (address, bytes) = (record.address().0, record.size().bytes());
            writeln!(self.out, "{} {kind} {address:x} {bytes}", batch.thread.0)?;
        }
        Ok(end)
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
