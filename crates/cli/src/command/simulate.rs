//! `pagewalk simulate`: recorded streams, or a program's, through machines.

use super::cores;
use super::interleaved::{Interleaved, common_thp};
use super::profile::Study;
use crate::arguments::{Simulate, Style};
use crate::error::{CliError, Code};
use crate::findings::{Detail, Namer};
use crate::live::{self, Live};
use crate::machine;
use crate::output::{ResultFiles, publish, say};
use crate::process::explain_empty_region;
use crate::progress::{self, Counted};
use pagewalk_report::schema::Host;
use pagewalk_trace::Source;
use pagewalk_trace::pwt::Reader;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub fn run(arguments: Simulate) -> Result<ExitCode, CliError> {
    let machines = machine::chosen(&arguments.model, arguments.style.quiet)?;
    let study =
        Study { machines, model: arguments.model, region: arguments.region, what_if: arguments.what_if };
    study.check()?;
    let files = ResultFiles::open(&arguments.outputs)?;
    if !arguments.command.is_empty() {
        let (result, status) = study.run_live(&Live::prepare(&arguments.command)?)?;
        publish(&result, arguments.style, files, true)?;
        return Ok(live::exit_code(status));
    }
    if let Some(quantum) = arguments.quantum {
        return interleaved(&study, &arguments.traces, quantum, arguments.style, files);
    }
    let namer = Namer::default();
    let mut processes = Vec::new();
    let mut about = None;
    let mut code = ExitCode::SUCCESS;
    let mut any_begun = false;
    for trace in &arguments.traces {
        let reader = open(trace, arguments.style.quiet)?;
        let header = reader.header();
        about.get_or_insert_with(|| {
            let host =
                Host { cpu: header.cpu.clone(), kernel: header.kernel.clone(), thp: header.thp.clone() };
            (header.engine.clone(), host)
        });
        let (process, ending) = match arguments.cores {
            Some(cores) => cores::stream(&study, reader, cores.into())?,
            None => study.stream(reader, &namer, Detail::Full),
        };
        any_begun |= ending.region_begun;
        if ending.cut {
            // What could be read is printed all the same.
            ending.losses.iter().for_each(|loss| say(format!("{}: {loss}", trace.display())));
            code = ExitCode::from(Code::BadInput as u8);
        }
        processes.push(process);
    }
    explain_empty_region(&study.region, any_begun);
    let (engine, host) = about.expect("clap requires a trace");
    publish(&study.result(engine, host, processes), arguments.style, files, false)?;
    Ok(code)
}

/// All traces on one processor.
fn interleaved(
    study: &Study,
    traces: &[PathBuf],
    quantum: u64,
    style: Style,
    files: ResultFiles,
) -> Result<ExitCode, CliError> {
    // One bar for all would say nothing of any.
    let readers = traces.iter().map(|trace| open(trace, true)).collect::<Result<Vec<_>, _>>()?;
    let recorded = readers[0].header().clone();
    let thp = match study.model.thp {
        Some(_) => machine::thp(study.model.thp, ""),
        None => machine::thp(None, &common_thp(&readers)),
    };
    let all = Interleaved::follow(study, readers, quantum, thp)?;
    let mut code = ExitCode::SUCCESS;
    for (trace, ending) in traces.iter().zip(&all.endings).filter(|(_, ending)| ending.cut) {
        ending.losses.iter().for_each(|loss| say(format!("{}: {loss}", trace.display())));
        code = ExitCode::from(Code::BadInput as u8);
    }
    explain_empty_region(&study.region, all.endings.iter().any(|ending| ending.region_begun));
    let host = Host { cpu: recorded.cpu, kernel: recorded.kernel, thp: recorded.thp };
    publish(&study.result(recorded.engine, host, vec![all.result(study)]), style, files, false)?;
    Ok(code)
}

/// Opens a trace with a progress bar over its bytes.
pub fn open(trace: &Path, quiet: bool) -> Result<Reader<Counted<File>>, CliError> {
    let bad = |e: &dyn std::fmt::Display| CliError::new(Code::BadInput, format!("{}: {e}", trace.display()));
    let file = File::open(trace).map_err(|e| bad(&e))?;
    let bytes = file.metadata().map_or(0, |meta| meta.len());
    let bar = progress::bytes(bytes, &trace.display().to_string(), quiet);
    Reader::new(Counted::new(file, bar)).map_err(|e| bad(&e).or("a trace is made by `pagewalk record`"))
}
