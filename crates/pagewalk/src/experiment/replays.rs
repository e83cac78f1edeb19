//! Traces that are read several times, in the arrangement of their experiment: for kernels that know the future, and
//! for alternatives that depend on what costs most.

use super::kernels::unfit;
use super::readings::EarlierReadings;
use super::rivals::KernelDesign;
use super::spec::Experiment;

use crate::error::{Error, Fault};
use crate::listener::Listener;
use crate::stream::ReadablePrefix;
use crate::traces::{bad, open_for};
use pagewalk_capture::{Window, read_ahead};
use pagewalk_layout::rebase::{PlanBinding, RebasedSource};
use pagewalk_mm::promotion::OfflineSettings;
use pagewalk_mm::{InferredAreas, OsKernel, ThpMode};
use pagewalk_report::schema::{Number, ProcessResult};
use pagewalk_sim::{DesignCounts, OfflineError, Simulation, check_offline, offline};
use pagewalk_trace::{Interleave, Origin, Source, StreamHeader};
use pagewalk_translate::Asid;
use std::path::{Path, PathBuf};

/// Traces to read again: one, or several that take turns.
pub struct ReplayableTraces<'a> {
    pub experiment: &'a Experiment,
    pub traces: &'a [PathBuf],
    /// Where a plan's objects go in each trace; empty without a plan.
    pub bounds: &'a [PlanBinding],
    pub listener: &'a dyn Listener,
}

/// A trace from its beginning, as the experiment sees it.
type TraceWindow<'a> = Window<Box<dyn Source + Send + 'a>>;

impl ReplayableTraces<'_> {
    /// Reads the traces as often as these kernels and the alternatives under the host's, in mode `thp`, need.
    ///
    /// # Errors
    /// If a trace cannot be read again.
    pub fn read(&self, kernels: &[KernelDesign], thp: ThpMode) -> Result<EarlierReadings, Error> {
        let replayed = kernels.iter().filter_map(|under| match &under.kernel {
            OsKernel::Offline(settings) => Some(self.offline(under, settings)),
            OsKernel::Running(_) => None,
        });
        let replayed = replayed.collect::<Result<Vec<_>, _>>()?;
        let mut instructions: Vec<u64> = replayed.iter().map(|counts| counts.instructions).collect();
        let survey = self.survey(thp)?;
        instructions.extend(survey.iter().map(|survey| survey.instructions));
        let to_try = survey.map_or_else(Vec::new, |survey| survey.mappings);
        Ok(EarlierReadings { replayed, to_try, instructions })
    }

    /// The first trace that is no file, and so can be read only once. A missing one is reported when it is opened.
    pub fn no_file(&self) -> Option<&Path> {
        no_file(self.traces)
    }

    /// The counts with the superpages that OFFLINE finds; each replay has a progress bar.
    fn offline(&self, under: &KernelDesign, settings: &OfflineSettings) -> Result<DesignCounts, Error> {
        let machine = &self.experiment.machines[under.machine];
        let mut replay = 0;
        let play = |simulation: &mut Simulation| {
            replay += 1;
            self.play(&format!("{}, replay {replay}", under.policy), simulation).map(drop)
        };
        let found = offline(play, machine, &self.experiment.arrangement(), settings, |_| {});
        found.map(|found| found.counts).map_err(|error| match error {
            OfflineError::Play(error) => error,
            other => bad(&self.traces[0], &other),
        })
    }

    /// Plays the traces to a simulation; `what` says why, for the progress bar. Returns their headers.
    ///
    /// # Errors
    /// If a trace cannot be read.
    pub fn play(&self, what: &str, simulation: &mut Simulation) -> Result<Vec<StreamHeader>, Error> {
        let open = |(index, trace): (usize, &PathBuf)| self.open(trace, self.bounds.get(index), what);
        let mut sources = self.traces.iter().enumerate().map(open).collect::<Result<Vec<_>, _>>()?;
        let headers = sources.iter().map(|source| source.header().clone()).collect();
        for (source, asid) in sources.iter().zip((0..).map_while(Asid::new)) {
            if source.header().origin == Origin::Fork {
                simulation.begin_as_child(asid);
            }
        }
        match &self.experiment.sharing {
            Some(sharing) => self.take_turns(Interleave::new(sources, sharing.turns.clone()), simulation)?,
            None => self.follow(sources.swap_remove(0), simulation)?,
        }
        Ok(headers)
    }

    fn open(&self, trace: &Path, bound: Option<&PlanBinding>, what: &str) -> Result<TraceWindow<'_>, Error> {
        let what = format!("{}, {what}", trace.display());
        let reader = InferredAreas::new(open_for(trace, &what, self.listener)?, self.experiment.areas);
        let reader = ReadablePrefix(reader);
        let source: Box<dyn Source + Send> = match bound {
            Some(bound) => Box::new(RebasedSource::new(reader, bound)),
            None => Box::new(reader),
        };
        Ok(Window::new(source, self.experiment.window))
    }

    fn take_turns(
        &self,
        mut streams: Interleave<TraceWindow<'_>>,
        simulation: &mut Simulation,
    ) -> Result<(), Error> {
        let mut runs = 0;
        while let Some((stream, item)) =
            streams.next_item().map_err(|(stream, error)| bad(&self.traces[stream], &error))?
        {
            if stream != runs {
                runs = stream;
                simulation.switch_to(Asid::new(stream as u32).expect("there are not more streams"));
            }
            item.play(simulation);
        }
        Ok(())
    }

    /// Follows a lone trace, decoding it on a thread of its own.
    fn follow(&self, source: TraceWindow<'_>, simulation: &mut Simulation) -> Result<(), Error> {
        std::thread::scope(|scope| {
            let mut ahead = read_ahead(scope, source, Vec::new()).map_err(|error| {
                Error::new(Fault::Failed, format!("no thread to decode the stream on: {error}"))
            })?;
            while let Some(item) = ahead.next_item().map_err(|error| bad(&self.traces[0], &error))? {
                item.play(simulation);
            }
            Ok(())
        })
    }

    /// Checks that the earlier readings read what `process` is the result of.
    ///
    /// # Errors
    /// If a trace changed in between.
    pub fn check_unchanged(&self, earlier: &EarlierReadings, process: &ProcessResult) -> Result<(), Error> {
        let instructions = process.machines[0].metrics.get("instructions");
        let is_same = |&read: &u64| instructions == Some(&Number::Count(read));
        if earlier.instructions.iter().all(is_same) {
            return Ok(());
        }
        Err(bad(&self.traces[0], &"a file changed while it was read"))
    }
}

fn no_file(traces: &[PathBuf]) -> Option<&Path> {
    let is_no_file = |trace: &&PathBuf| trace.metadata().is_ok_and(|about| !about.is_file());
    traces.iter().find(is_no_file).map(PathBuf::as_path)
}

/// Checks that kernels which know the future suit the machines in their arrangement, and that every trace can be read
/// as often as they need. No `traces` means a program that runs.
///
/// # Errors
/// If not.
pub fn check(experiment: &Experiment, kernels: &[KernelDesign], traces: &[PathBuf]) -> Result<(), Error> {
    let replays = |under: &&KernelDesign| matches!(under.kernel, OsKernel::Offline(_));
    let Some(KernelDesign { policy, .. }) = kernels.iter().find(replays) else { return Ok(()) };
    if traces.is_empty() {
        let why = format!("policy `{policy}` replays the stream, and a program runs only once");
        let way_out = "record it with `pagewalk record -o T.pwt -- CMD…` and simulate T.pwt";
        return Err(Error::new(Fault::Usage, why).or(way_out));
    }
    if let Some(trace) = no_file(traces) {
        let why = format!("policy `{policy}` reads a trace once for each replay, and this is no file");
        return Err(bad(trace, &why).or("write it to a file first"));
    }
    for under in kernels {
        if let OsKernel::Offline(settings) = &under.kernel {
            let machine = &experiment.machines[under.machine];
            check_offline(machine, &experiment.arrangement(), settings).map_err(|e| unfit(&e))?;
        }
    }
    Ok(())
}
