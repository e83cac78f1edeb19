//! `pagewalk simulate`: recorded streams, or a program's, through machines.

mod by_traps;
mod cores;
pub mod data_side;
mod interleaved;
pub mod layout;
pub mod os;
pub mod structure;

use super::profile::Study;
use crate::arguments::{Simulate, Style};
use crate::error::{CliError, Code};
use crate::findings::{Detail, Namer};
use crate::live::{self, Live};
use crate::machine;
use crate::output::{ResultFiles, say};
use crate::process::{Ending, Reached, explain_region};
use crate::progress::{self, Counted};
use indicatif::ProgressBar;
use interleaved::{Interleaved, Sharing, common_thp};
use pagewalk_layout::rebase::{Bound, Rebased};
use pagewalk_report::schema::{Host, ProcessResult, WhatIf};
use pagewalk_sim::DesignCounts;
use pagewalk_trace::Source;
use pagewalk_trace::pwt::Reader;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub fn run(arguments: Simulate) -> Result<ExitCode, CliError> {
    let mut machines = machine::chosen(&arguments.model, arguments.style.quiet)?;
    data_side::put_last(&mut machines);
    let turns = interleaved::turns(&arguments)?;
    let study = Study {
        machines,
        model: arguments.model,
        region: arguments.region,
        what_if: arguments.what_if,
        kernels: os::kernels(&arguments.kernels)?,
        structure: arguments.structure.as_deref().map(machine::structure).transpose()?,
    };
    if arguments.by_traps.is_some() {
        by_traps::check(&study)?;
    }
    study.check()?;
    os::check_replays(&study, &arguments.traces)?;
    if arguments.layout.is_some() {
        os::check_no_replays(&study, "--layout")?;
    }
    let inputs = arguments.traces.iter().map(PathBuf::as_path).chain(arguments.layout.as_deref());
    let files = ResultFiles::open(&arguments.outputs, inputs)?;
    if !arguments.command.is_empty() {
        let live = Live::prepare(&arguments.command, arguments.layout.as_deref())?;
        let live = live.told(arguments.style.into(), arguments.max_threads);
        let (result, status) = study.run_live(&live)?;
        study.publish(&result, arguments.style, files, true)?;
        live.check_landed()?;
        return Ok(live::exit_code(status));
    }
    let plan = arguments.layout.as_deref().map(layout::PlanFile::read).transpose()?;
    if let Some(turns) = turns {
        return in_turns(&study, &arguments.traces, plan.as_ref(), turns, arguments.style, files);
    }
    let bounds = look_at(&study, &arguments.traces, plan.as_ref())?;
    let mut namer = Namer::default();
    let mut processes = Vec::new();
    let mut about = None;
    let mut code = ExitCode::SUCCESS;
    let mut reached = Vec::new();
    for (index, trace) in arguments.traces.iter().enumerate() {
        namer.until = trace.metadata().and_then(|about| about.modified()).ok();
        let reader = open(trace, arguments.style.quiet)?;
        let header = reader.header();
        study.check_grain(trace, header)?;
        about.get_or_insert_with(|| {
            let host =
                Host { cpu: header.cpu.clone(), kernel: header.kernel.clone(), thp: header.thp.clone() };
            (header.engine.clone(), host)
        });
        let (process, ending) = match (bounds.get(index), arguments.cores, arguments.by_traps) {
            (Some(bound), cores, host) => one(&study, Rebased::new(reader, bound), &namer, cores, host)?,
            (None, None, None) if study.has_kernels() && study.structure.is_none() => {
                os::trace(&study, reader, trace, arguments.style.quiet)?
            }
            (None, cores, host) => one(&study, reader, &namer, cores, host)?,
        };
        reached.push(ending.region);
        if ending.cut {
            // What could be read is printed all the same.
            ending.losses.iter().for_each(|loss| say(format!("{}: {loss}", trace.display())));
            code = ExitCode::from(Code::BadInput as u8);
        }
        processes.push(process);
    }
    explain_region(&study.region, Reached::by_any(reached));
    let (engine, host) = about.expect("clap requires a trace");
    study.publish(&study.result(engine, host, processes), arguments.style, files, false)?;
    Ok(code)
}

/// Looks at all traces before the first is simulated, which may take long: whether they are there, tell what the
/// machines look at, and have the objects of the plan, whose places are answered.
fn look_at(
    study: &Study,
    traces: &[PathBuf],
    plan: Option<&layout::PlanFile>,
) -> Result<Vec<Bound>, CliError> {
    for trace in traces {
        // A pipe can be opened and read only once.
        if trace.metadata().map_err(|e| bad(trace, &e))?.is_file() {
            let (file, _) = open_file(trace)?;
            study.check_grain(trace, read(trace, file, ProgressBar::hidden())?.header())?;
        }
    }
    traces.iter().filter_map(|trace| Some(plan?.bind(trace))).collect()
}

/// One stream, read once.
fn one<S: Source + Send>(
    study: &Study,
    source: S,
    namer: &Namer,
    cores: Option<u8>,
    host: Option<u32>,
) -> Result<(ProcessResult, Ending), CliError> {
    match (cores, host) {
        (Some(cores), _) => cores::stream(study, source, cores.into()),
        (None, Some(host)) => by_traps::stream(study, source, host),
        (None, None) => Ok(study.stream(source, namer, Detail::Full)),
    }
}

/// All traces together, with the objects of a plan elsewhere if there is one.
fn in_turns(
    study: &Study,
    traces: &[PathBuf],
    plan: Option<&layout::PlanFile>,
    turns: Sharing,
    style: Style,
    files: ResultFiles,
) -> Result<ExitCode, CliError> {
    let readers = open_all(traces, style.quiet)?;
    for (trace, reader) in traces.iter().zip(&readers) {
        study.check_grain(trace, reader.header())?;
    }
    let recorded = readers[0].header().clone();
    let thp = match study.model.thp {
        Some(_) => machine::thp(study.model.thp, ""),
        None => machine::thp(None, &common_thp(&readers)),
    };
    let all = match plan {
        None => Interleaved::follow(study, readers, turns, thp)?,
        Some(plan) => {
            let moved = traces.iter().zip(readers).map(|(trace, reader)| plan.move_objects(trace, reader));
            Interleaved::follow(study, moved.collect::<Result<_, _>>()?, turns, thp)?
        }
    };
    let mut code = ExitCode::SUCCESS;
    for (trace, ending) in traces.iter().zip(&all.endings).filter(|(_, ending)| ending.cut) {
        ending.losses.iter().for_each(|loss| say(format!("{}: {loss}", trace.display())));
        code = ExitCode::from(Code::BadInput as u8);
    }
    explain_region(&study.region, Reached::by_any(all.endings.iter().map(|ending| ending.region)));
    let host = Host { cpu: recorded.cpu, kernel: recorded.kernel, thp: recorded.thp };
    study.publish(&study.result(recorded.engine, host, vec![all.result(study)]), style, files, false)?;
    Ok(code)
}

type TraceReader = Reader<Counted<File>>;

/// Opens a trace with a progress bar over its bytes.
pub fn open(trace: &Path, quiet: bool) -> Result<TraceReader, CliError> {
    open_for(trace, &trace.display().to_string(), quiet)
}

/// The same; the bar says what it is read for.
fn open_for(trace: &Path, what: &str, quiet: bool) -> Result<TraceReader, CliError> {
    let (file, bytes) = open_file(trace)?;
    read(trace, file, progress::bytes(bytes, what, quiet))
}

/// Opens traces that are read in turns, with one progress bar over the bytes of all.
fn open_all(traces: &[PathBuf], quiet: bool) -> Result<Vec<TraceReader>, CliError> {
    let files = traces.iter().map(|trace| open_file(trace)).collect::<Result<Vec<_>, _>>()?;
    let bytes = files.iter().map(|(_, bytes)| bytes).sum();
    let what = match traces {
        [one] => one.display().to_string(),
        several => format!("{} traces", several.len()),
    };
    let bar = progress::bytes(bytes, &what, quiet);
    traces.iter().zip(files).map(|(trace, (file, _))| read(trace, file, bar.clone())).collect()
}

/// A trace's file and its bytes.
fn open_file(trace: &Path) -> Result<(File, u64), CliError> {
    let file = File::open(trace).map_err(|e| bad(trace, &e))?;
    let bytes = file.metadata().map_or(0, |meta| meta.len());
    Ok((file, bytes))
}

fn read(trace: &Path, file: File, bar: ProgressBar) -> Result<TraceReader, CliError> {
    let reader = Reader::new(Counted::new(file, bar));
    reader.map_err(|e| bad(trace, &e).or("a trace is made by `pagewalk record`"))
}

fn bad(trace: &Path, error: &dyn std::fmt::Display) -> CliError {
    CliError::new(Code::BadInput, format!("{}: {error}", trace.display()))
}

/// Walks and their cycles beside those of `base`, over the whole run.
fn compared(base: &DesignCounts, id: &str, title: &str, class: &str, walks: u64, walk_cycles: u64) -> WhatIf {
    beside((base.walks(), base.cycles.walk), id, title, class, (walks, walk_cycles))
}

/// Walks and their cycles beside others, over the whole run.
fn beside(base: (u64, u64), id: &str, title: &str, class: &str, (walks, walk_cycles): (u64, u64)) -> WhatIf {
    WhatIf {
        id: id.to_owned(),
        title: title.to_owned(),
        class: class.to_owned(),
        mapping: None,
        page_size: None,
        from_instruction: 0,
        to_instruction: None,
        walks,
        walk_cycles,
        baseline_walks: base.0,
        baseline_walk_cycles: base.1,
        memory_price_mib: 0.0,
    }
}
