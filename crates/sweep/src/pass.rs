//! Runs a job: one pass over its stream.

use crate::error::SweepError;
use crate::jobs::Job;
use crate::metrics::unpriced;
use crate::moved_streams::{LayoutRuns, LayoutTask};
use crate::progress::{CountingFile, Progress};
use crate::rounds;
use crate::run::Sweep;
use crate::stream::Stream;
use crate::task::{RunningTask, Task, TaskOutcome, begin};
use pagewalk_mm::InferredAreas;
use pagewalk_sim::{Arrangement, OfflineError, Simulation, offline};
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
            if let (Task::Machine(variant, _) | Task::Laid(variant, _), TaskOutcome::Machine(metrics, _)) =
                (&self.tasks[*task], outcome)
                && let Some(why) = unpriced(&variant.machine, metrics)
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
        let Stream { files, turns, thp, .. } = &self.streams[stream];
        let wrong = |file: usize, why: String| SweepError::Trace { path: files[file].clone(), why };
        let sources = self.open(stream, progress)?;
        let origins: Vec<Origin> = sources.iter().map(|source| source.header().origin).collect();
        let (laid, others): (Vec<_>, Vec<_>) =
            tasks.iter().copied().partition(|(_, task)| matches!(task, Task::Laid(..)));
        let mut running = RunningTask::start(&others, &origins, *thp, turns.is_some(), self.options.threads)
            .map_err(|e| wrong(0, e.to_string()))?;
        let mut laid = self.start_laid(stream, &laid)?;
        let mut analyses: Vec<&mut dyn Analysis> =
            running.iter_mut().map(|running| running as &mut dyn Analysis).collect();
        analyses.extend(laid.iter_mut().flat_map(LayoutRuns::parts));
        self.play(stream, sources, &mut analyses, pool)
            .map_err(|(file, error)| wrong(file, error.to_string()))?;
        let mut outcomes: Outcomes = running.into_iter().flat_map(RunningTask::finish).collect();
        outcomes.extend(laid.into_iter().flat_map(LayoutRuns::finish));
        Ok(outcomes)
    }

    /// Runs a task that replays the stream until it has found all superpages.
    fn replay(
        &self,
        stream: usize,
        task: Task<'_>,
        pool: &ThreadPool,
        progress: &dyn Progress,
    ) -> Result<TaskOutcome, SweepError> {
        let (machine, settings, structure) = task.offline().expect("it is replayed");
        let Stream { files, turns, .. } = &self.streams[stream];
        let wrong = |file: usize, why: String| SweepError::Trace { path: files[file].clone(), why };
        let arrangement =
            Arrangement { structure: structure.cloned(), turns: turns.is_some(), ..Arrangement::default() };
        let play = |simulation: &mut Simulation| {
            let progress = ReplayProgress(progress);
            let sources = self.open(stream, &progress)?;
            let origins: Vec<Origin> = sources.iter().map(|source| source.header().origin).collect();
            begin(simulation, &origins);
            let played = self.play(stream, sources, &mut [simulation], pool);
            played.map_err(|(file, error)| wrong(file, error.to_string()))
        };
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
        match &self.streams[stream].turns {
            None => {
                let source = &mut sources[0];
                let read = |stretch: &mut Stretch, most| stretch.read(source, most).map_err(|e| (0, e));
                pool.install(|| rounds::run(read, analyses))
            }
            Some(turns) => {
                let mut all = Interleave::new(sources, turns.clone());
                let read = |stretch: &mut Stretch, most| stretch.read_turns(&mut all, most);
                pool.install(|| rounds::run(read, analyses))
            }
        }
    }

    /// Machines under layouts; `None` if there are none.
    fn start_laid(
        &self,
        stream: usize,
        tasks: &[(usize, Task<'a>)],
    ) -> Result<Option<LayoutRuns>, SweepError> {
        if tasks.is_empty() {
            return Ok(None);
        }
        let laid = |(number, task): &(usize, Task<'a>)| {
            let Task::Laid(machine, _) = task else { unreachable!("they were chosen so") };
            let made = self.plan_of(stream, task).map(|made| made.expect("all plans were made"));
            LayoutTask { number: *number, machine, plan: made.map(|made| made.text.as_str()) }
        };
        let tasks: Vec<LayoutTask<'_>> = tasks.iter().map(laid).collect();
        let wrong = |why: String| SweepError::Trace { path: self.streams[stream].files[0].clone(), why };
        LayoutRuns::start(&tasks, &self.events(stream)?, wrong).map(Some)
    }

    /// The header and events of a single process's stream.
    pub(crate) fn events(&self, stream: usize) -> Result<Events, SweepError> {
        let path = &self.streams[stream].files[0];
        let wrong = |why: String| SweepError::Trace { path: path.clone(), why };
        let file = File::open(path).map_err(|e| wrong(e.to_string()))?;
        events(BufReader::with_capacity(1 << 20, file), Event::moves_memory).map_err(|e| wrong(e.to_string()))
    }
}

/// The progress of replays, of which there may be any number: their bytes do not count.
struct ReplayProgress<'a>(&'a dyn Progress);

impl Progress for ReplayProgress<'_> {
    fn bytes(&self, _bytes: u64) {}

    fn is_stopped(&self) -> bool {
        self.0.is_stopped()
    }
}
