//! Runs a job: one pass over its stream.

use crate::analyses::{Analyses, PlannedTask, Processes, planned_movers};
use crate::displacement::MovedAnalysis;
use crate::error::SweepError;
use crate::jobs::Job;
use crate::metrics::unpriced;
use crate::progress::{CountingFile, Progress};
use crate::rounds;
use crate::run::Sweep;
use crate::stream::Stream;
use crate::task::{Task, TaskOutcome, begin};
use pagewalk_mm::InferredAreas;
use pagewalk_sim::{OfflineError, Simulation, offline};
use pagewalk_trace::pwt::{Events, Reader, events};
use pagewalk_trace::{Analysis, Event, Interleave, Origin, Source, Stretch};
use rayon::ThreadPool;
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

/// Outcomes by the tasks' indices.
pub(crate) type Outcomes = Vec<(usize, TaskOutcome)>;

/// A reader of one process's trace, with areas where the trace lacks them.
type TraceFile<'a> = InferredAreas<Reader<CountingFile<'a>>>;

impl<'a> Sweep<'a> {
    /// Runs the tasks of a job that have no outcome yet, keeps what they found, and returns all outcomes of the job.
    pub(crate) fn run_job(
        &self,
        job: &Job,
        pool: &ThreadPool,
        progress: &dyn Progress,
    ) -> Result<Outcomes, SweepError> {
        let mut outcomes = Outcomes::new();
        let mut missing = Vec::new();
        for &task in &job.tasks {
            // Another worker may have done it since.
            match self.stored_outcome(job.stream, task) {
                Some(outcome) => outcomes.push((task, outcome)),
                None => missing.push((task, self.tasks[task])),
            }
        }
        let (replayed, once): (Vec<_>, Vec<_>) =
            missing.into_iter().partition(|(_, task)| task.offline().is_some());
        let found = self.run_once(job.stream, &once, pool, progress)?;
        outcomes.extend(self.keep(job.stream, found)?);
        for (number, task) in replayed {
            if progress.is_stopped() {
                return Err(SweepError::Stopped);
            }
            let outcome = self.replay(job.stream, task, pool, progress)?;
            outcomes.extend(self.keep(job.stream, vec![(number, outcome)])?);
        }
        if once.is_empty() {
            progress.bytes(self.streams[job.stream].bytes);
        }
        Ok(outcomes)
    }

    /// Keeps outcomes. Those whose cycles have no price are an error, after the others are kept.
    fn keep(&self, stream: usize, outcomes: Outcomes) -> Result<Outcomes, SweepError> {
        let mut without_price = None;
        for (task, outcome) in &outcomes {
            if let (Task::Machine(of), TaskOutcome::Machine(metrics, _)) = (&self.tasks[*task], outcome)
                && let Some(why) = unpriced(&of.machine.machine, metrics)
            {
                without_price.get_or_insert(why);
                continue;
            }
            self.options.store.put(self.key(stream, *task).expect("its plan is made"), outcome)?;
        }
        match without_price {
            Some(why) => Err(SweepError::Study { file: self.study.file.clone(), why }),
            None => Ok(outcomes),
        }
    }

    /// Runs tasks that need the stream once.
    fn run_once(
        &self,
        stream: usize,
        tasks: &[(usize, Task<'a>)],
        pool: &ThreadPool,
        progress: &dyn Progress,
    ) -> Result<Outcomes, SweepError> {
        if tasks.is_empty() {
            return Ok(Outcomes::new());
        }
        let about = &self.streams[stream];
        let wrong = |file: usize, why: String| SweepError::Trace { path: about.files[file].clone(), why };
        let sources = self.open(stream, progress)?;
        let planned: Vec<PlannedTask<'_>> = tasks.iter().map(|task| self.planned(stream, task)).collect();
        let processes = Processes { origins: origins(&sources), events: self.events_for(stream, &planned)? };
        let mut analyses = Analyses::start(&planned, about, &processes, self.options.threads)
            .map_err(|why| wrong(0, why))?;
        self.play(stream, sources, &mut analyses.parts(), pool)
            .map_err(|(file, error)| wrong(file, error.to_string()))?;
        Ok(analyses.finish())
    }

    /// A task with its plans, which must be made.
    fn planned<'s>(&'s self, stream: usize, (number, task): &(usize, Task<'s>)) -> PlannedTask<'s> {
        let plans = self.plans_of(stream, task).expect("all plans were made");
        PlannedTask { number: *number, task: *task, plans }
    }

    /// The headers and events of a stream's processes, if layouts are simulated.
    fn events_for(&self, stream: usize, tasks: &[PlannedTask<'_>]) -> Result<Vec<Events>, SweepError> {
        let is_laid =
            |one: &PlannedTask<'_>| matches!(one.task, Task::Machine(task) if task.layout.is_some());
        let processes = if tasks.iter().any(is_laid) { self.streams[stream].processes() } else { 0 };
        (0..processes).map(|process| self.events(stream, process)).collect()
    }

    /// Runs a task that replays the stream until it has found all superpages.
    fn replay(
        &self,
        stream: usize,
        task: Task<'_>,
        pool: &ThreadPool,
        progress: &dyn Progress,
    ) -> Result<TaskOutcome, SweepError> {
        let (of_machine, settings) = task.offline().expect("it is replayed");
        let Stream { files, sharing, .. } = &self.streams[stream];
        let wrong = |file: usize, why: String| SweepError::Trace { path: files[file].clone(), why };
        let planned = self.planned(stream, &(0, task));
        let events = self.events_for(stream, std::slice::from_ref(&planned))?;
        let play = |simulation: &mut Simulation| {
            let progress = ReplayProgress(progress);
            let sources = self.open(stream, &progress)?;
            begin(simulation, &origins(&sources));
            let movers = planned_movers(&planned.plans, &events).map_err(|why| wrong(0, why))?;
            let mut moved = MovedAnalysis::new(movers, simulation);
            let played = self.play(stream, sources, &mut [&mut moved], pool);
            played.map_err(|(file, error)| wrong(file, error.to_string()))
        };
        let machine = &of_machine.machine.machine;
        let arrangement = of_machine.arrangement(sharing.as_ref());
        let found = offline(play, machine, &arrangement, &settings, |_| {});
        let found = found.map_err(|error| match error {
            OfflineError::Play(error) => error,
            other => wrong(0, other.to_string()),
        })?;
        Ok(TaskOutcome::of_machine(&found.counts, found.structure.as_ref()))
    }

    fn open<'p>(&self, stream: usize, progress: &'p dyn Progress) -> Result<Vec<TraceFile<'p>>, SweepError> {
        let open = |path: &PathBuf| {
            let wrong = |why: String| SweepError::Trace { path: path.clone(), why };
            let file = File::open(path).map_err(|e| wrong(e.to_string()))?;
            let reader = Reader::new(CountingFile { file, progress }).map_err(|e| wrong(e.to_string()))?;
            Ok(InferredAreas::new(reader, self.study.areas))
        };
        self.streams[stream].files.iter().map(open).collect()
    }

    /// Gives the whole stream to all analyses. An error has the index of its file.
    fn play(
        &self,
        stream: usize,
        mut sources: Vec<TraceFile<'_>>,
        analyses: &mut [&mut dyn Analysis],
        pool: &ThreadPool,
    ) -> Result<(), (usize, pagewalk_trace::SourceError)> {
        match &self.streams[stream].sharing {
            None => {
                let source = &mut sources[0];
                let read = |stretch: &mut Stretch, most| stretch.read(source, most).map_err(|e| (0, e));
                pool.install(|| rounds::run(read, analyses))
            }
            Some(sharing) => {
                let mut all = Interleave::new(sources, sharing.turns.clone());
                let read = |stretch: &mut Stretch, most| stretch.read_turns(&mut all, most);
                pool.install(|| rounds::run(read, analyses))
            }
        }
    }

    /// The header and events of a process's stream.
    pub(crate) fn events(&self, stream: usize, process: usize) -> Result<Events, SweepError> {
        let path = &self.streams[stream].files[process];
        let wrong = |why: String| SweepError::Trace { path: path.clone(), why };
        let file = File::open(path).map_err(|e| wrong(e.to_string()))?;
        events(BufReader::with_capacity(1 << 20, file), Event::moves_memory).map_err(|e| wrong(e.to_string()))
    }
}

/// Where the streams' processes began.
fn origins<S: Source>(sources: &[S]) -> Vec<Origin> {
    sources.iter().map(|source| source.header().origin).collect()
}

/// The progress of replays, of which there may be any number: their bytes do not count.
struct ReplayProgress<'a>(&'a dyn Progress);

impl Progress for ReplayProgress<'_> {
    fn bytes(&self, _bytes: u64) {}

    fn is_stopped(&self) -> bool {
        self.0.is_stopped()
    }
}
