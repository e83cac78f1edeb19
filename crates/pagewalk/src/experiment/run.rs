//! Runs an experiment: checks it, simulates a program or traces, and builds the result.

use super::kernels::unfit;
use super::readings::EarlierReadings;
use super::replays::{self, ReplayableTraces};
use super::rivals::Rivals;
use super::spec::Experiment;
use super::turns::{self, InterleavedStreams};
use super::{cores, data_side, kernels, profile, structure, traps};
use crate::engine::log::{Death, WITHOUT_ENGINE};
use crate::engine::{Live, Stream};
use crate::error::{Error, Fault};
use crate::findings::{Detail, Namer, totals};
use crate::listener::Listener;
use crate::machines;
use crate::native::describe_end;
use crate::placement::LayoutFile;
use crate::stream::{Ending, WindowProgress, check_window, tell_unreached};
use crate::traces::{bad, open, open_all, open_header};
use pagewalk_capture::UNFINISHED;
use pagewalk_layout::rebase::{PlanBinding, RebasedSource};
use pagewalk_mm::{InferredAreas, ThpMode};
use pagewalk_report::schema::{Host, ProcessResult, REST_LOST, RESULT_SCHEMA, RunResult, Tool};
use pagewalk_sim::{Profile, Sharing};
use pagewalk_sweep::unpriced;
use pagewalk_trace::{Source, StreamHeader};
use pagewalk_translate::MachineSpec;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// Processes from this number on are kept in brief.
const FULL_DETAIL: u32 = 16;

/// The outcome of an experiment over traces.
#[derive(Debug)]
pub struct ExperimentOutcome {
    /// The result of everything that could be read.
    pub result: RunResult,
    /// Whether reading a trace stopped early; the listener was told why.
    pub cut: bool,
}

impl Experiment {
    /// Checks that the settings go together, for these traces, or for a program if there are none.
    ///
    /// # Errors
    /// Which settings conflict, and what to do.
    pub fn check(&self, traces: &[PathBuf]) -> Result<(), Error> {
        if self.machines.is_empty() {
            return Err(Error::new(Fault::Usage, "no machine to simulate"));
        }
        traps::check(self)?;
        self.machines.iter().try_for_each(machines::check_data_side)?;
        // The trace's own mode is not known yet; designs that work with `always` work with every mode.
        let thp = self.thp.unwrap_or(ThpMode::Always);
        let rivals = Rivals::of(self, thp, &[])?;
        self.check_designs(&rivals, thp)?;
        replays::check(self, &rivals.kernels, traces)?;
        if self.sharing.is_some() && traces.is_empty() {
            let why = "processes that run would have to wait for each other's turns";
            let way_out =
                "record them with `pagewalk record -o T.pwt -- CMD…` and simulate the traces together";
            return Err(Error::new(Fault::Usage, why).or(way_out));
        }
        Ok(())
    }

    /// Checks that the machines can be simulated together.
    fn check_designs(&self, rivals: &Rivals, thp: ThpMode) -> Result<(), Error> {
        if self.is_alone() {
            if self.has_simulation() {
                rivals.arranged(self, &self.machines, thp, &self.arrangement())?;
            }
            let (whole, _) = data_side::split(&self.machines);
            let is_profiled = self.profiles_beside() || !self.has_simulation();
            return match is_profiled && !whole.is_empty() {
                true => Profile::new(&whole, thp, self.what_if).map(drop).map_err(|e| unfit(&e)),
                false => Ok(()),
            };
        }
        let arranged = match (&self.sharing, self.cores) {
            (Some(_), _) => turns::arranged,
            (None, Some(_)) => cores::arranged,
            (None, None) => structure::arranged,
        };
        arranged(self, rivals, thp).map(drop)
    }

    /// Runs the program; the result has every process image in order of start.
    ///
    /// # Errors
    /// If the program cannot run, or never comes to the region of interest.
    pub fn program(&self, live: &Live, listener: &dyn Listener) -> Result<(RunResult, ExitStatus), Error> {
        let namer = Namer::default();
        let done = Mutex::new(Vec::new());
        let status = live.run(listener, |source: Stream| {
            let number = source.inner.number();
            let detail = if number < FULL_DETAIL { Detail::Full } else { Detail::Brief };
            let (process, ending) = self.simulate(source, (&namer, detail), &EarlierReadings::default());
            done.lock().unwrap_or_else(PoisonError::into_inner).push((number, process, ending.reached));
        })?;
        let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        let reached = WindowProgress::by_any(done.iter().map(|(_, _, reached)| *reached));
        done.sort_by_key(|(number, ..)| *number);
        let mut processes: Vec<ProcessResult> = done.into_iter().map(|(_, process, _)| process).collect();
        name_roots_end(&mut processes, status);
        name_deaths(&mut processes, live.deaths());
        let tell_losses = |_: &Error| {
            processes.iter().flat_map(|process| &process.losses).for_each(|loss| listener.warn(loss));
        };
        check_window(&self.window, reached, listener).inspect_err(tell_losses)?;
        let host =
            Host { cpu: live.host.cpu.clone(), kernel: live.host.kernel.clone(), thp: live.host.thp.clone() };
        Ok((self.result(live.engine_name.clone(), host, processes), status))
    }

    /// Simulates recorded streams.
    ///
    /// # Errors
    /// If a trace cannot be opened, lacks what a machine needs, or has nothing in the region of interest; see
    /// [`Experiment::check`].
    pub fn traces(&self, traces: &[PathBuf], listener: &dyn Listener) -> Result<ExperimentOutcome, Error> {
        if traces.is_empty() {
            return Err(Error::new(Fault::Usage, "no trace to read"));
        }
        let plan = self.layout.as_deref().map(LayoutFile::read).transpose()?;
        match &self.sharing {
            Some(sharing) => self.in_turns(traces, plan.as_ref(), sharing, listener),
            None => self.one_by_one(traces, plan.as_ref(), listener),
        }
    }

    fn one_by_one(
        &self,
        traces: &[PathBuf],
        plan: Option<&LayoutFile>,
        listener: &dyn Listener,
    ) -> Result<ExperimentOutcome, Error> {
        let bounds = self.check_traces(traces, plan, listener)?;
        let kernels = kernels::under_kernels(self)?;
        let mut namer = Namer::default();
        let mut processes = Vec::new();
        let mut about = None;
        let mut cut = false;
        let mut reached = Vec::new();
        for (index, trace) in traces.iter().enumerate() {
            namer.until = vec![recorded_at(trace)];
            let reader = InferredAreas::new(open(trace, listener)?, self.areas);
            self.check_grain(trace, reader.header())?;
            about.get_or_insert_with(|| recorded_by(reader.header()));
            let bounds = if bounds.is_empty() { &[] } else { &bounds[index..=index] };
            let replays =
                ReplayableTraces { experiment: self, traces: std::slice::from_ref(trace), bounds, listener };
            let thp = machines::thp(self.thp, &reader.header().thp);
            let earlier = replays.read(&kernels, thp)?;
            let of_trace = (&namer, Detail::Full);
            let (process, ending) = match bounds.first() {
                Some(bound) => self.simulate(RebasedSource::new(reader, bound), of_trace, &earlier),
                None => self.simulate(reader, of_trace, &earlier),
            };
            replays.check_unchanged(&earlier, &process)?;
            reached.push(ending.reached);
            if ending.cut {
                // What could be read still counts.
                ending.tell_losses(trace, listener);
                cut = true;
            }
            processes.push(process);
        }
        let paths = traces.iter().map(PathBuf::as_path);
        tell_unreached(&self.window, paths.zip(reached.iter().copied()), listener);
        check_window(&self.window, WindowProgress::by_any(reached), listener)?;
        let (engine, host) = about.expect("there is a trace");
        Ok(ExperimentOutcome { result: self.result(engine, host, processes), cut })
    }

    /// Checks all traces before simulating the first, which may take long: that they exist, have what the machines
    /// need, and contain the plan's objects. Returns where these objects go.
    fn check_traces(
        &self,
        traces: &[PathBuf],
        plan: Option<&LayoutFile>,
        listener: &dyn Listener,
    ) -> Result<Vec<PlanBinding>, Error> {
        for trace in traces {
            // A pipe can be opened and read only once.
            if trace.metadata().map_err(|e| bad(trace, &e))?.is_file() {
                self.check_grain(trace, open_header(trace)?.header())?;
            }
        }
        traces.iter().filter_map(|trace| Some(plan?.bind(trace, listener))).collect()
    }

    /// Simulates one stream. `earlier` are its readings before.
    fn simulate<S: Source + Send>(
        &self,
        source: S,
        (namer, detail): (&Namer, Detail),
        earlier: &EarlierReadings,
    ) -> (ProcessResult, Ending) {
        match (self.cores, &self.structure) {
            (Some(_), _) => cores::stream(self, source, (namer, detail), earlier),
            (None, Some(structure)) => structure::once(self, structure, source, (namer, detail), earlier),
            (None, None) if self.has_simulation() => kernels::once(self, source, (namer, detail), earlier),
            (None, None) => profile::once(self, &self.machines, source, (namer, detail), None),
        }
    }

    /// Simulates streams in turns. `earlier` are their readings before.
    fn take_turns<S: Source>(
        &self,
        sources: Vec<S>,
        sharing: &Sharing,
        (thp, namer): (ThpMode, &Namer),
        earlier: &EarlierReadings,
    ) -> Result<(ProcessResult, Vec<Ending>), Error> {
        let rivals = Rivals::of(self, thp, &earlier.to_try)?;
        let streams = InterleavedStreams::follow(self, rivals, sources, sharing, thp)?;
        Ok(streams.result(self, namer, &earlier.replayed))
    }

    /// Simulates all traces together, with a plan's objects moved if there is a plan.
    fn in_turns(
        &self,
        traces: &[PathBuf],
        plan: Option<&LayoutFile>,
        sharing: &Sharing,
        listener: &dyn Listener,
    ) -> Result<ExperimentOutcome, Error> {
        turns::check_number(self, traces.len())?;
        let with_areas = |reader| InferredAreas::new(reader, self.areas);
        let readers: Vec<_> = open_all(traces, listener)?.into_iter().map(with_areas).collect();
        for (trace, reader) in traces.iter().zip(&readers) {
            self.check_grain(trace, reader.header())?;
        }
        let (engine, host) = recorded_by(readers[0].header());
        let thp = match self.thp {
            Some(mode) => mode,
            None => machines::thp(None, &turns::common_thp(&readers, listener)),
        };
        let bounds = traces.iter().filter_map(|trace| Some(plan?.bind(trace, listener)));
        let bounds = bounds.collect::<Result<Vec<_>, _>>()?;
        let replays = ReplayableTraces { experiment: self, traces, bounds: &bounds, listener };
        let earlier = replays.read(&kernels::under_kernels(self)?, thp)?;
        let mut namer = Namer::default();
        namer.until = traces.iter().map(|trace| recorded_at(trace)).collect();
        let (process, endings) = match plan {
            None => self.take_turns(readers, sharing, (thp, &namer), &earlier)?,
            Some(_) => {
                let moved = readers.into_iter().zip(&bounds);
                let moved = moved.map(|(reader, bound)| RebasedSource::new(reader, bound)).collect();
                self.take_turns(moved, sharing, (thp, &namer), &earlier)?
            }
        };
        for (trace, ending) in traces.iter().zip(&endings).filter(|(_, ending)| ending.cut) {
            ending.tell_losses(trace, listener);
        }
        let reached = endings.iter().map(|ending| ending.reached);
        let paths = traces.iter().map(PathBuf::as_path);
        tell_unreached(&self.window, paths.zip(reached.clone()), listener);
        check_window(&self.window, WindowProgress::by_any(reached), listener)?;
        let cut = endings.iter().any(|ending| ending.cut);
        replays.check_unchanged(&earlier, &process)?;
        Ok(ExperimentOutcome { result: self.result(engine, host, vec![process]), cut })
    }

    /// The whole result.
    fn result(&self, engine: String, host: Host, mut processes: Vec<ProcessResult>) -> RunResult {
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
            descriptions: self.machines.iter().map(machines::description).collect(),
            machines: totals(&processes),
            processes,
        }
    }

    /// Checks that all misses of a result have a price.
    ///
    /// # Errors
    /// If not: the machine's file lacks a price, and the result lacks their cycles.
    pub fn check_prices(&self, result: &RunResult) -> Result<(), Error> {
        let of = |machine: &MachineSpec| result.machines.iter().find(|found| found.name == machine.name);
        let why = self.machines.iter().find_map(|machine| unpriced(machine, &of(machine)?.metrics));
        why.map_or(Ok(()), |why| {
            let why = Error::new(Fault::BadInput, why);
            Err(why
                .or("the results above are without those cycles: add the class's price to the machine file"))
        })
    }

    /// Refuses a trace that lacks what a machine needs.
    fn check_grain(&self, trace: &Path, header: &StreamHeader) -> Result<(), Error> {
        let check = |machine| pagewalk_sim::check_grain(header.grain, machine);
        self.machines.iter().try_for_each(check).map_err(|e| bad(trace, &e))
    }
}

/// When a trace was recorded.
fn recorded_at(trace: &Path) -> Option<SystemTime> {
    trace.metadata().and_then(|about| about.modified()).ok()
}

/// The engine and host that recorded a stream.
fn recorded_by(header: &StreamHeader) -> (String, Host) {
    let host = Host { cpu: header.cpu.clone(), kernel: header.kernel.clone(), thp: header.thp.clone() };
    (header.engine.clone(), host)
}

/// Marks processes that the engine killed: their streams did not simply end, the rest is lost.
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

/// Our child's exit status is certain; it belongs to the last image of the first process.
fn name_roots_end(processes: &mut [ProcessResult], status: ExitStatus) {
    let Some(pid) = processes.first().map(|process| process.pid) else { return };
    if let Some(last) = processes.iter_mut().rev().find(|process| process.pid == pid) {
        last.ended = describe_end(status);
    }
}
