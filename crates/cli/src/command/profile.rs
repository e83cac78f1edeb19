//! `pagewalk profile`: run a program and say where its address translation costs.

use super::simulate::{data_side, os, structure};
use crate::arguments::{Model, Profile, Region, Style};
use crate::engine_log::{Death, WITHOUT_ENGINE};
use crate::error::{CliError, Code};
use crate::findings::{Detail, Namer, description, totals};
use crate::live::{self, Live, Stream};
use crate::machine;
use crate::output::{ResultFiles, publish};
use crate::process::{Ending, Reached, explain_region, follow_ahead};
use pagewalk_capture::UNFINISHED;
use pagewalk_mm::OsSpec;
use pagewalk_mm::structure::StructureSpec;
use pagewalk_report::schema::{Host, ProcessResult, REST_LOST, RESULT_SCHEMA, RunResult, Tool};
use pagewalk_sim::{Experiment, Profile as Profiler};
use pagewalk_sweep::unpriced;
use pagewalk_trace::{Source, StreamHeader};
use pagewalk_translate::MachineSpec;
use std::path::Path;
use std::process::{ExitCode, ExitStatus};
use std::sync::{Mutex, PoisonError};

/// Processes beyond so many are kept in brief.
const FULL_DETAIL: u32 = 16;

pub fn run(arguments: Profile) -> Result<ExitCode, CliError> {
    let mut machines = machine::chosen(&arguments.model, arguments.style.quiet)?;
    data_side::put_last(&mut machines);
    let (model, region) = (arguments.model, arguments.region);
    let study = Study { machines, model, region, what_if: true, kernels: Vec::new(), structure: None };
    study.check()?;
    let files = ResultFiles::open(&arguments.outputs, arguments.layout.as_deref().into_iter())?;
    let live = Live::prepare(&arguments.command, arguments.layout.as_deref())?;
    let live = live.told(arguments.style.into(), arguments.max_threads);
    let (result, status) = study.run_live(&live)?;
    study.publish(&result, arguments.style, files, true)?;
    live.check_landed()?;
    Ok(live::exit_code(status))
}

/// What to simulate over each stream.
pub struct Study {
    pub machines: Vec<MachineSpec>,
    pub model: Model,
    pub region: Region,
    pub what_if: bool,
    /// Kernels to simulate beside the host's, in the place of everything else that is asked of a stream.
    pub kernels: Vec<OsSpec>,
    /// The operating system around the programs, in the place of the alternatives too.
    pub structure: Option<StructureSpec>,
}

impl Study {
    /// Runs the program; the result has every process image in order of start.
    pub fn run_live(&self, live: &Live) -> Result<(RunResult, ExitStatus), CliError> {
        let namer = Namer::default();
        let done = Mutex::new(Vec::new());
        let status = live.run(|source: Stream| {
            let number = source.inner.number();
            let detail = if number < FULL_DETAIL { Detail::Full } else { Detail::Brief };
            let (process, ending) = self.stream(source, &namer, detail);
            done.lock().unwrap_or_else(PoisonError::into_inner).push((number, process, ending.region));
        })?;
        let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        explain_region(&self.region, Reached::by_any(done.iter().map(|(_, _, region)| *region)));
        done.sort_by_key(|(number, ..)| *number);
        let mut processes: Vec<ProcessResult> = done.into_iter().map(|(_, process, _)| process).collect();
        name_roots_end(&mut processes, status);
        name_deaths(&mut processes, live.deaths());
        let host =
            Host { cpu: live.host.cpu.clone(), kernel: live.host.kernel.clone(), thp: live.host.thp.clone() };
        Ok((self.result(live.engine_name.clone(), host, processes), status))
    }

    /// Follows one stream to its end.
    pub fn stream<S: Source + Send>(
        &self,
        source: S,
        namer: &Namer,
        detail: Detail,
    ) -> (ProcessResult, Ending) {
        if let Some(structure) = &self.structure {
            return structure::once(self, structure, source);
        }
        if self.has_kernels() {
            return os::once(self, source);
        }
        let (whole, sides) = data_side::split(&self.machines);
        if whole.is_empty() {
            return data_side::once(self, source);
        }
        let header: StreamHeader = source.header().clone();
        let thp = machine::thp(self.model.thp, &header.thp);
        let profiler = Profiler::new(whole, thp, self.what_if).expect("the number of machines was checked");
        let beside: Vec<Experiment> =
            if sides.is_empty() { Vec::new() } else { vec![data_side::experiment(sides, thp)] };
        let mut analyses = ((profiler, beside), namer.ahead());
        let ending = follow_ahead(source, &self.region, &mut analyses);
        let (profiler, beside) = &mut analyses.0;
        let mut process = namer.process(&header, whole, &mut profiler.finish(), detail);
        process.machines.extend(beside.iter_mut().flat_map(data_side::results));
        process.ended = ending.describe();
        process.losses.extend(ending.losses.iter().cloned());
        (process, ending)
    }

    /// The whole result.
    pub fn result(&self, engine: String, host: Host, mut processes: Vec<ProcessResult>) -> RunResult {
        processes.iter_mut().for_each(ProcessResult::note_cut);
        let command_line = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
        RunResult {
            schema: RESULT_SCHEMA.to_owned(),
            tool: Tool {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                engine,
                command_line: command_line.collect(),
            },
            host,
            descriptions: self.machines.iter().map(description).collect(),
            machines: totals(&processes),
            processes,
        }
    }

    /// Writes the result. That some misses have no price is said after that, as an error of the machine's file.
    pub fn publish(
        &self,
        result: &RunResult,
        style: Style,
        files: ResultFiles,
        live: bool,
    ) -> Result<(), CliError> {
        publish(result, style, files, live)?;
        let of = |machine: &MachineSpec| result.machines.iter().find(|found| found.name == machine.name);
        let why = self.machines.iter().find_map(|machine| unpriced(machine, &of(machine)?.metrics));
        why.map_or(Ok(()), |why| {
            let why = CliError::new(Code::BadInput, why);
            Err(why
                .or("the results above are without those cycles: add the class's price to the machine file"))
        })
    }

    /// Whether some machine is to run under another kernel than the host's.
    pub fn has_kernels(&self) -> bool {
        !self.what_if
            && (!self.kernels.is_empty() || self.machines.iter().any(|machine| machine.os.is_some()))
    }

    /// Refuses machines whose files describe a kernel of their own.
    pub fn check_kernels_are_none(&self, what: &str) -> Result<(), CliError> {
        let Some(machine) = self.machines.iter().find(|machine| machine.os.is_some()) else { return Ok(()) };
        let text = format!("machine `{}` has an [os] of its own, which {what} cannot simulate", machine.name);
        Err(CliError::new(Code::Usage, text).or("take `simulate` alone, or a file without [os]"))
    }

    /// Refuses a trace that does not tell what a machine looks at.
    pub fn check_grain(&self, trace: &Path, header: &StreamHeader) -> Result<(), CliError> {
        let check = |machine| pagewalk_sim::check_grain(header.grain, machine);
        let bad = |e| CliError::new(Code::BadInput, format!("{}: {e}", trace.display()));
        self.machines.iter().try_for_each(check).map_err(bad)
    }

    /// Checks that the machines fit into one pass.
    pub fn check(&self) -> Result<(), CliError> {
        data_side::check(&self.machines)?;
        if self.structure.is_some() {
            return structure::check(self);
        }
        if self.has_kernels() {
            return os::check(self);
        }
        self.check_kernels_are_none("profile or --what-if")?;
        let (whole, _) = data_side::split(&self.machines);
        if whole.is_empty() {
            return Ok(());
        }
        Profiler::new(whole, pagewalk_mm::ThpMode::Never, self.what_if)
            .map(drop)
            .map_err(|e| CliError::new(Code::Usage, e).or("give fewer machines with -m"))
    }
}

/// The rest of what died of the engine is lost, which says more than that its stream just ended.
fn name_deaths(processes: &mut [ProcessResult], deaths: &[Death]) {
    for Death { pid, why } in deaths {
        let is_meant = |process: &&mut ProcessResult| pid.is_none_or(|pid| process.pid == pid);
        if let Some(last) = processes.iter_mut().rev().find(is_meant) {
            let rest =
                format!("{REST_LOST}, which died of the engine, not of itself: {why}; {WITHOUT_ENGINE}");
            last.losses.retain(|loss| !loss.contains(UNFINISHED));
            last.losses.push(rest);
        }
    }
}

/// The first process's end is known for certain: it is our child. Its last image is the one that ended so.
fn name_roots_end(processes: &mut [ProcessResult], status: ExitStatus) {
    let Some(pid) = processes.first().map(|process| process.pid) else { return };
    if let Some(last) = processes.iter_mut().rev().find(|process| process.pid == pid) {
        last.ended = live::describe(status);
    }
}
