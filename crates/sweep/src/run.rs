//! Runs a study: finds unfinished work, does it, and gathers the result.

use crate::board::{Board, Next};
use crate::error::SweepError;
use crate::jobs::{Claims, Job, WAIT};
use crate::machine_task::MachineTask;
use crate::plans::{From, PlanOutput, PlanRequest};
use crate::progress::{CountingFile, Progress};
use crate::store::{Key, Store, write_whole};
use crate::stream::Stream;
use crate::study::Study;
use crate::task::{self, Task, TaskOutcome};
use pagewalk_report::sweep::schema::SweepResult;
use pagewalk_trace::pwt::Reader;
use rayon::ThreadPool;
use std::fs::File;
use std::path::PathBuf;

/// How to run a study.
pub struct SweepOptions<'a> {
    /// Version of pagewalk, for the result.
    pub version: &'a str,
    /// Identifies this build of the program: a hash of its file.
    pub tool: String,
    /// Worker threads; at least 1.
    pub threads: usize,
    /// Where finished units are kept.
    pub store: Store,
    /// The folder for plans of layouts.
    pub plans: PathBuf,
    /// The claims on jobs.
    pub claims: Claims,
}

/// The unfinished work over one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemainingWork {
    /// The trace's name.
    pub trace: String,
    /// Bytes of its file.
    pub bytes: u64,
    /// The unfinished tasks, as text.
    pub tasks: Vec<String>,
    /// How many tasks are finished.
    pub done: usize,
}

/// A study with its streams; some work may be finished already.
pub struct Sweep<'a> {
    pub(crate) study: &'a Study,
    pub(crate) options: SweepOptions<'a>,
    pub(crate) streams: Vec<Stream>,
    pub(crate) tasks: Vec<Task<'a>>,
    /// By stream and task.
    pub(crate) outcomes: Vec<Vec<Option<TaskOutcome>>>,
    /// The plans that layouts need, each once made.
    pub(crate) plans: Vec<(PlanRequest, Option<PlanOutput>)>,
}

impl<'a> Sweep<'a> {
    /// A study over its streams, one per trace in its order ([`Stream::all`]), with the results of earlier runs.
    pub fn new(study: &'a Study, streams: Vec<Stream>, options: SweepOptions<'a>) -> Sweep<'a> {
        let mut sweep = Sweep::without_outcomes(study, streams, options);
        sweep.look_up();
        sweep
    }

    /// The same without a look at earlier results, for [`Sweep::run_job`] alone: that takes as long for one of many
    /// tasks as for all.
    pub(crate) fn without_outcomes(
        study: &'a Study,
        streams: Vec<Stream>,
        options: SweepOptions<'a>,
    ) -> Sweep<'a> {
        let tasks = Task::all(study);
        let mut sweep = Sweep { study, options, streams, tasks, outcomes: Vec::new(), plans: Vec::new() };
        let wanted = PlanRequest::all(study, &sweep.streams).into_iter();
        sweep.plans = wanted.map(|wanted| (wanted, sweep.kept_plan(&wanted))).collect();
        sweep
    }

    /// Loads what earlier runs kept.
    fn look_up(&mut self) {
        let of_stream =
            |stream| (0..self.tasks.len()).map(|task| self.stored_outcome(stream, task)).collect();
        self.outcomes = (0..self.streams.len()).map(of_stream).collect();
    }

    /// The key of a task over a stream; `None` until its plans are made.
    pub(crate) fn key(&self, stream: usize, task: usize) -> Option<Key> {
        let about = &self.streams[stream].about;
        let plans = self.plans_of(stream, &self.tasks[task])?;
        let areas = about.inferred_gap.map(|gap| format!("\nareas inferred, gap {gap}"));
        let identity = self.tasks[task].identity(&about.thp, &plans) + &areas.unwrap_or_default();
        Some(Key::new(&self.options.tool, &about.fingerprint, identity))
    }

    /// The plans that a task over a stream needs, by process.
    pub(crate) fn requests(&self, stream: usize, task: &Task<'_>) -> Vec<PlanRequest> {
        match task {
            Task::Machine(MachineTask { machine, layout: Some(choice), .. }) => {
                PlanRequest::of(self.study, &self.streams, stream, choice, machine)
            }
            _ => Vec::new(),
        }
    }

    /// The same as text; `None` until all are made.
    pub(crate) fn plans_of(&self, stream: usize, task: &Task<'_>) -> Option<Vec<&str>> {
        let made = |wanted: PlanRequest| {
            let (_, made) = self.plans.iter().find(|(known, _)| *known == wanted)?;
            Some(made.as_ref()?.text.as_str())
        };
        self.requests(stream, task).into_iter().map(made).collect()
    }

    pub(crate) fn plan_key(&self, wanted: &PlanRequest) -> Key {
        // A plan is of a process alone, however it shares the processor.
        let hash = &self.streams[wanted.trace].hashes[wanted.process];
        Key::new(&self.options.tool, hash, wanted.identity(self.study))
    }

    fn kept_plan(&self, wanted: &PlanRequest) -> Option<PlanOutput> {
        match self.options.store.get(&self.plan_key(wanted)) {
            Some(TaskOutcome::Plan(made)) => Some(made),
            _ => None,
        }
    }

    /// The outcome of an earlier run. A tampered file may hold another task's outcome: then the task runs again.
    pub(crate) fn stored_outcome(&self, stream: usize, task: usize) -> Option<TaskOutcome> {
        self.options.store.get(&self.key(stream, task)?).filter(|outcome| outcome.fits(&self.tasks[task]))
    }

    /// The unfinished tasks over a stream, by number.
    fn waiting(&self, stream: usize) -> Vec<usize> {
        let name = &self.streams[stream].about.name;
        let is_waiting =
            |task: &usize| self.outcomes[stream][*task].is_none() && self.tasks[*task].is_for(name);
        (0..self.tasks.len()).filter(is_waiting).collect()
    }

    /// The unfinished work, by trace.
    pub fn remaining(&self) -> Vec<RemainingWork> {
        let of_stream = |(number, stream): (usize, &Stream)| {
            let name = &stream.about.name;
            let plans: Vec<_> = self.plans.iter().filter(|(wanted, _)| wanted.trace == number).collect();
            let of = plans.len() + self.tasks.iter().filter(|task| task.is_for(name)).count();
            let unmade = plans.iter().filter(|(_, made)| made.is_none());
            let mut tasks: Vec<String> =
                unmade.map(|(wanted, _)| wanted.title(self.study, &self.streams)).collect();
            tasks.extend(self.waiting(number).into_iter().map(|task| self.tasks[task].title()));
            RemainingWork { trace: name.clone(), bytes: stream.bytes, done: of - tasks.len(), tasks }
        };
        self.streams.iter().enumerate().map(of_stream).collect()
    }

    /// The study's jobs over all streams. They do not depend on what is done, so that all workers have the same.
    fn jobs(&self) -> Vec<Job> {
        let of_stream = |(stream, about): (usize, &Stream)| {
            let own = (0..self.tasks.len()).filter(|&task| self.tasks[task].is_for(&about.about.name));
            let (replayed, once): (Vec<_>, Vec<_>) =
                own.partition(|&task| self.tasks[task].offline().is_some());
            let alone = replayed.into_iter().map(move |task| Job { stream, tasks: vec![task] });
            Job::split(stream, once.into_iter()).into_iter().chain(alone).collect::<Vec<_>>()
        };
        self.streams.iter().enumerate().flat_map(of_stream).collect()
    }

    /// The unfinished jobs.
    pub(crate) fn unfinished_jobs(&self) -> Vec<Job> {
        let is_unfinished =
            |job: &Job| job.tasks.iter().any(|&task| self.outcomes[job.stream][task].is_none());
        self.jobs().into_iter().filter(is_unfinished).collect()
    }

    /// Bytes of traces that the unfinished jobs read.
    pub fn bytes(&self) -> u64 {
        self.unfinished_jobs().iter().map(|job| self.streams[job.stream].bytes).sum()
    }

    /// Makes the plans that layouts need, unless they are kept.
    pub fn plan(&mut self, progress: &dyn Progress) -> Result<(), SweepError> {
        if self.plans.iter().all(|(_, made)| made.is_some()) {
            return self.write_plans();
        }
        let pool = self.pool()?;
        (0..self.streams.len()).try_for_each(|stream| self.make_plans(stream, &pool, progress))?;
        // With the plans known, finds what was done under them.
        self.look_up();
        self.write_plans()
    }

    pub(crate) fn pool(&self) -> Result<ThreadPool, SweepError> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(self.options.threads.max(1)).build();
        pool.map_err(|e| SweepError::Threads(e.to_string()))
    }

    /// Does the unfinished work, together with other workers of the folder, and gathers the result. Finished units are
    /// kept even if something else fails.
    pub fn run(mut self, progress: &dyn Progress) -> Result<SweepResult, SweepError> {
        self.plan(progress)?;
        let threads = self.options.threads.max(1);
        let pool = self.pool()?;
        let board = Board::new(self.unfinished_jobs());
        let replays = self.tasks.iter().any(|task| task.offline().is_some());
        let busy = if replays { 1 } else { task::work(&self.tasks, threads) };
        let lanes = threads.div_ceil(busy).min(board.jobs.len());
        std::thread::scope(|scope| {
            let lane = || self.work(&board, &pool, progress);
            // The caller's thread is the first lane.
            let others: Vec<_> = (1..lanes).map(|_| scope.spawn(lane)).collect();
            lane();
            others.into_iter().for_each(|other| other.join().expect("lanes do not panic"));
        });
        for (stream, outcomes) in board.finish()? {
            for (task, outcome) in outcomes {
                self.outcomes[stream][task] = Some(outcome);
            }
        }
        Ok(self.result())
    }

    /// Runs jobs until all are done, by this worker or by others.
    fn work(&self, board: &Board, pool: &ThreadPool, progress: &dyn Progress) {
        loop {
            if progress.is_stopped() {
                return board.fail(SweepError::Stopped);
            }
            match board.next(&self.options.claims, |job| self.title(job), |job| self.is_kept(job)) {
                Ok(Next::Job(number, _claim)) => {
                    board.end(number, self.run_job(&board.jobs[number], pool, progress));
                }
                Ok(Next::Wait) => std::thread::sleep(WAIT),
                Ok(Next::Nothing) => return,
                Err(error) => return board.fail(error),
            }
        }
    }

    /// Whether another worker has kept all outcomes of a job. [`Sweep::run_job`] checks what is in them.
    fn is_kept(&self, job: &Job) -> bool {
        job.tasks
            .iter()
            .all(|&task| self.key(job.stream, task).is_some_and(|key| self.options.store.has(&key)))
    }

    pub(crate) fn title(&self, job: &Job) -> String {
        let name = &self.streams[job.stream].about.name;
        match &job.tasks[..] {
            [only] => format!("{name}: {}", self.tasks[*only].title()),
            tasks => format!("{name}: {} and {} more", self.tasks[tasks[0]].title(), tasks.len() - 1),
        }
    }

    /// The study's jobs by title, each with the file names of its units. Plans must be made.
    pub fn units(&self) -> Vec<(String, Vec<String>)> {
        let unit = |job: &Job, task: usize| self.key(job.stream, task).map(|key| key.file_name());
        let of_job = |job: Job| {
            let units = job.tasks.iter().filter_map(|&task| unit(&job, task)).collect();
            (self.title(&job), units)
        };
        self.jobs().into_iter().map(of_job).collect()
    }

    fn missing_plans(&self, stream: usize) -> Vec<PlanRequest> {
        let is_missing =
            |(wanted, made): &&(PlanRequest, Option<PlanOutput>)| wanted.trace == stream && made.is_none();
        self.plans.iter().filter(is_missing).map(|(wanted, _)| *wanted).collect()
    }

    /// Makes the missing plans of one stream.
    fn make_plans(
        &mut self,
        stream: usize,
        pool: &ThreadPool,
        progress: &dyn Progress,
    ) -> Result<(), SweepError> {
        if self.missing_plans(stream).is_empty() {
            return Ok(());
        }
        let title = format!("{}: plans of layouts", self.streams[stream].about.name);
        let _claim =
            self.options.claims.wait(&format!("plans-{stream}"), &title, || progress.is_stopped())?;
        // Another worker may have made them meanwhile.
        for number in 0..self.plans.len() {
            if self.plans[number].1.is_none() {
                self.plans[number].1 = self.kept_plan(&self.plans[number].0);
            }
        }
        let wanted = self.missing_plans(stream);
        for (process, path) in self.streams[stream].files.iter().enumerate() {
            let own: Vec<PlanRequest> =
                wanted.iter().filter(|wanted| wanted.process == process).copied().collect();
            if own.is_empty() {
                continue;
            }
            let wrong = |why: String| SweepError::Trace { path: path.clone(), why };
            let open = || {
                let file = File::open(path).map_err(|e| wrong(e.to_string()))?;
                Reader::new(CountingFile { file, progress }).map_err(|e| wrong(e.to_string()))
            };
            let is_one_of_several = self.streams[stream].processes() > 1;
            let events = &self.events(stream, process)?;
            let from = From { study: self.study, events, is_one_of_several, pool };
            for (wanted, made) in from.make(&own, open, wrong)? {
                self.options.store.put(self.plan_key(&wanted), &TaskOutcome::Plan(made.clone()))?;
                let place = self.plans.iter_mut().find(|(known, _)| *known == wanted);
                place.expect("it was asked for").1 = Some(made);
            }
        }
        Ok(())
    }

    /// Writes all plans as files.
    fn write_plans(&self) -> Result<(), SweepError> {
        self.plans.iter().filter_map(|(wanted, made)| Some((wanted, made.as_ref()?))).try_for_each(
            |(wanted, made)| {
                let file = wanted.file(self.study, &self.streams);
                write_whole(&self.options.plans.join(file), made.text.as_bytes())
            },
        )
    }
}
