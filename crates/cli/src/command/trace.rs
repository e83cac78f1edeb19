//! `pagewalk trace`: info, check, dump, import, export.

use crate::arguments::{Trace, TraceCommand};
use crate::exit;
use crate::exit::ExitCode;
use crate::output::{print, say, unless_gone};
use crate::terminal::Terminal;
use pagewalk::capture::WindowSpec;
use pagewalk::output::cannot_write;
use pagewalk::report::documents;
use pagewalk::report::printable;
use pagewalk::shell::quoted;
use pagewalk::stream::Ending;
use pagewalk::trace::pwt::Info;
use pagewalk::trace::{Grain, Origin};
use pagewalk::traces::conversion;
use pagewalk::traces::inputs::Inputs;
use pagewalk::traces::soundness::{Soundness, info};
use pagewalk::{Error, Fault};
use serde::Serialize;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

pub fn run(arguments: Trace) -> Result<ExitCode, Error> {
    match arguments.command {
        TraceCommand::Info { json, trace } => show_info(&trace, json),
        TraceCommand::Check { json, trace } => check(&trace, json),
        TraceCommand::Dump { region, trace } => dump(&trace, &region.into()),
        TraceCommand::Import { format, output, inputs } => import(&inputs, format.as_deref(), &output),
        TraceCommand::Export { format, output, trace } => {
            export(&trace, &format, output.as_deref().filter(|path| *path != Path::new("-")))
        }
    }
}

/// The JSON of `info`.
#[derive(Serialize)]
struct InfoDocument<'a> {
    schema: &'static str,
    #[serde(flatten)]
    info: &'a Info,
}

fn show_info(trace: &Path, json: bool) -> Result<ExitCode, Error> {
    let info = info(trace)?;
    if json {
        let value =
            serde_json::to_string_pretty(&InfoDocument { schema: "pagewalk.trace-info/1", info: &info });
        print(&(value.map_err(|e| Error::new(Fault::Failed, e))? + "\n"))?;
    } else {
        print(&info_text(trace, &info))?;
    }
    Ok(if info.damage.is_none() { ExitCode::SUCCESS } else { exit::by(Fault::BadInput) })
}

fn info_text(trace: &Path, info: &Info) -> String {
    let records = info.references.saturating_add(info.block_executions);
    let header = &info.header;
    let mut out = format!("{}: version {}, {} bytes\n", trace.display(), info.version, info.bytes);
    let mut line = |name: &str, value: String| out += &format!("  {name:<18} {}\n", printable(&value));
    if header.origin == Origin::Import {
        line("imported", format!("{} ({})", header.program, header.engine));
    } else {
        let words = [header.program.clone()];
        line("program", if header.arguments.is_empty() { &words[..] } else { &header.arguments }.join(" "));
        line("process", format!("{} (parent {})", header.pid, header.parent));
        line("engine", header.engine.clone());
        line("host", format!("{}, Linux {}, THP {}", header.cpu, header.kernel, header.thp));
    }
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
    line("chunks", format!("{} of {} frames; `trace check` reads them", info.chunks, info.frames));
    let events: Vec<String> = info.events.iter().map(|(name, count)| format!("{name} {count}")).collect();
    line("events", events.join(", "));
    if let Some(damage) = &info.damage {
        line("damage", damage.clone());
    }
    out
}

/// Prints broken rules. Warnings leave the trace sound.
fn check(trace: &Path, json: bool) -> Result<ExitCode, Error> {
    let found = Soundness::of(trace, &Terminal { quiet: false })?;
    let (findings, errors, cut) = (&found.findings, found.errors(), found.ending.cut);
    if json {
        print(&documents::text(&found.document(trace)))?;
    } else {
        let mut out: String = findings.iter().map(|finding| printable(&finding.to_string()) + "\n").collect();
        out += &match (errors, cut) {
            (0, false) => format!("{}: sound\n", trace.display()),
            (0, true) => format!("{}: sound as far as it can be read\n", trace.display()),
            (n, _) => format!("{}: {n} rules broken\n", trace.display()),
        };
        print(&out)?;
    }
    let readable = damage(trace, &found.ending);
    Ok(if errors > 0 { exit::by(Fault::BadInput) } else { readable })
}

fn dump(trace: &Path, window: &WindowSpec) -> Result<ExitCode, Error> {
    let out = BufWriter::with_capacity(1 << 20, io::stdout());
    let (ending, written) = conversion::dump(trace, window, out, &Terminal { quiet: true })?;
    unless_gone(written)?;
    Ok(damage(trace, &ending))
}

fn import(inputs: &[PathBuf], format: Option<&str>, output: &Path) -> Result<ExitCode, Error> {
    let inputs = Inputs::open(inputs)?;
    let name = inputs.name.clone();
    let (ending, summary) = conversion::import(inputs, format, output, &Terminal { quiet: false })?;
    let records = summary.references + summary.block_executions;
    let path = quoted(output);
    say(format!("{path}: {records} records; next: pagewalk simulate {path}"));
    Ok(damage(&name, &ending))
}

fn export(trace: &Path, format: &str, output: Option<&Path>) -> Result<ExitCode, Error> {
    let terminal = Terminal { quiet: output.is_none() };
    let (ending, written) = conversion::export(trace, format, output, &terminal)?;
    match output {
        Some(path) => written.map_err(|e| cannot_write(path, &e))?,
        None => unless_gone(written)?,
    }
    Ok(damage(trace, &ending))
}

fn damage(input: &Path, ending: &Ending) -> ExitCode {
    ending.tell_losses(input, &Terminal { quiet: false });
    if ending.cut { exit::by(Fault::BadInput) } else { ExitCode::SUCCESS }
}
