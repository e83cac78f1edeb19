//! Runs a study: finds unfinished work, does it, and gathers the result.

use crate::counts::{CurveCounts, FamilyCounts};
use crate::error::SweepError;
use crate::metrics::unpriced;
use crate::moved_streams::{LayoutRuns, LayoutTask};
use crate::plans::{From, PlanOutput, PlanRequest, label};
use crate::store::{Key, Store, write_whole};
use crate::stream::Stream;
use crate::study::{FamilySpec, Study, serves_name};
use crate::task::{self, RunningTask, Task, TaskOutcome};
use crate::{compare, offline, rounds};
use pagewalk_report::sweep::schema::{
    CurveCell, FamilyCell, FamilySize, LayoutPlanRow, MachineCell, SWEEP_SCHEMA, SweepResult,
};
use pagewalk_reuse::Family;
use pagewalk_trace::pwt::{Events, Reader, events};
use pagewalk_trace::{Analysis, Event, Interleave, Origin, Source, Stretch};
use rayon::ThreadPool;
use rayon::prelude::*;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Receives progress.
pub trait Progress: Sync {
    /// This many more bytes of traces were read.
    fn bytes(&self, bytes: u64);

    /// Whether the caller wants the study to end: reading a trace then fails.
    fn is_stopped(&self) -> bool {
        false
    }
}

/// How to run a study.
pub struct Options<'a> {
    /// Version of pagewalk, for the result.
    pub version: &'a str,
    /// Identifies this build of the program: a hash of its file.
    pub tool: String,
    /// Worker threads; at least 1.
    pub threads: usize,
    /// The folder of finished units.
    pub units: PathBuf,
    /// The folder for plans of layouts.
    pub plans: PathBuf,
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
    study: &'a Study,
    options: Options<'a>,
    store: Store,
    streams: Vec<Stream>,
    tasks: Vec<Task<'a>>,
    /// By stream and task.
    outcomes: Vec<Vec<Option<TaskOutcome>>>,
    /// The plans that layouts need, each once made.
    plans: Vec<(PlanRequest, Option<PlanOutput>)>,
}

impl<'a> Sweep<'a> {
    /// Examines the streams, one per trace of the study in its order, and the results of earlier runs. A trace has one
    /// file, or several if processes take turns. Cost: reads every file once, for its hash.
    pub fn new(
        study: &'a Study,
        traces: &[Vec<PathBuf>],
        options: Options<'a>,
    ) -> Result<Sweep<'a>, SweepError> {
        assert_eq!(traces.len(), study.traces.len(), "files for each trace of the study");
        let store = Store::new(options.units.clone());
        let tasks = Task::all(study);
        let named = study.traces.iter().zip(traces);
        let streams = named
            .map(|(spec, files)| Stream::of(study, spec, files))
            .collect::<Result<Vec<_>, SweepError>>()?;
        let mut sweep =
            Sweep { study, options, store, streams, tasks, outcomes: Vec::new(), plans: Vec::new() };
        sweep.plans =
            PlanRequest::all(study).into_iter().map(|wanted| (wanted, sweep.kept_plan(&wanted))).collect();
        sweep.look_up();
        Ok(sweep)
    }

    /// Loads what earlier runs kept.
    fn look_up(&mut self) {
        let of_stream =
            |stream| (0..self.tasks.len()).map(|task| self.stored_outcome(stream, task)).collect();
        self.outcomes = (0..self.streams.len()).map(of_stream).collect();
    }

    /// The key of a task over a stream; `None` until its plan is made.
    fn key(&self, stream: usize, task: usize) -> Option<Key> {
        let about = &self.streams[stream].about;
        let plan = match self.plan_of(stream, &self.tasks[task]) {
            None => None,
            Some(made) => Some(made?.text.as_str()),
        };
        Some(Key::new(&self.options.tool, &about.fingerprint, self.tasks[task].identity(&about.thp, plan)))
    }

    /// The plan of a task over a stream, if it is made; an inner `None` if it needs none.
    fn plan_of(&self, stream: usize, task: &Task<'_>) -> Option<Option<&PlanOutput>> {
        let Task::Laid(_, laying) = task else { return None };
        let wanted = PlanRequest::of(self.study, stream, laying.layout, laying.draw, laying.machine)?;
        let found = self.plans.iter().find(|(known, _)| *known == wanted);
        Some(found.and_then(|(_, made)| made.as_ref()))
    }

    fn plan_key(&self, wanted: &PlanRequest) -> Key {
        let about = &self.streams[wanted.trace].about;
        Key::new(&self.options.tool, &about.fingerprint, wanted.identity(self.study))
    }

    fn kept_plan(&self, wanted: &PlanRequest) -> Option<PlanOutput> {
        match self.store.get(&self.plan_key(wanted)) {
            Some(TaskOutcome::Plan(made)) => Some(made),
            _ => None,
        }
    }

    /// The outcome of an earlier run. A tampered file may hold another task's outcome: then the task runs again.
    fn stored_outcome(&self, stream: usize, task: usize) -> Option<TaskOutcome> {
        self.store.get(&self.key(stream, task)?).filter(|outcome| outcome.fits(&self.tasks[task]))
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
            let mut tasks: Vec<String> = unmade.map(|(wanted, _)| wanted.title(self.study)).collect();
            tasks.extend(self.waiting(number).into_iter().map(|task| self.tasks[task].title()));
            RemainingWork { trace: name.clone(), bytes: stream.bytes, done: of - tasks.len(), tasks }
        };
        self.streams.iter().enumerate().map(of_stream).collect()
    }

    /// Does the unfinished work, and gathers the result. Finished units are kept even if something else fails.
    pub fn run(mut self, progress: &dyn Progress) -> Result<SweepResult, SweepError> {
        let threads = self.options.threads.max(1);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let pool = pool.map_err(|e| SweepError::Threads(e.to_string()))?;
        if self.plans.iter().any(|(_, made)| made.is_none()) {
            (0..self.streams.len()).try_for_each(|stream| self.make_plans(stream, &pool, progress))?;
            // With the plans known, finds what was done under them.
            self.look_up();
        }
        self.write_plans()?;
        let waiting: Vec<usize> =
            (0..self.streams.len()).filter(|&stream| !self.waiting(stream).is_empty()).collect();
        let lanes = threads.div_ceil(task::work(&self.tasks, threads)).min(waiting.len());
        let next = AtomicUsize::new(0);
        let ended = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            let lane = || {
                while let Some(&stream) = waiting.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = self.run_stream(stream, &pool, progress);
                    ended.lock().unwrap_or_else(PoisonError::into_inner).push((stream, outcome));
                }
            };
            // The caller's thread is the first lane.
            let others: Vec<_> = (1..lanes).map(|_| scope.spawn(lane)).collect();
            lane();
            others.into_iter().for_each(|other| other.join().expect("lanes do not panic"));
        });
        let mut ended = ended.into_inner().unwrap_or_else(PoisonError::into_inner);
        ended.sort_by_key(|(stream, _)| *stream);
        for (stream, outcomes) in ended {
            for (task, outcome) in outcomes? {
                self.outcomes[stream][task] = Some(outcome);
            }
        }
        Ok(self.result())
    }

    /// Runs all unfinished tasks over one stream.
    fn run_stream(
        &self,
        stream: usize,
        pool: &ThreadPool,
        progress: &dyn Progress,
    ) -> Result<Vec<(usize, TaskOutcome)>, SweepError> {
        let Stream { files, turns, thp, .. } = &self.streams[stream];
        let wrong = |file: usize, why: String| SweepError::Trace { path: files[file].clone(), why };
        let remaining = self.waiting(stream).into_iter().map(|task| (task, self.tasks[task]));
        let (laid, remaining): (Vec<_>, Vec<_>) =
            remaining.partition(|(_, task): &(usize, Task<'_>)| matches!(task, Task::Laid(..)));
        let (replayed, once): (Vec<_>, Vec<_>) =
            remaining.into_iter().partition(|(_, task)| task.offline().is_some());
        let open = |file: usize| {
            let opened = File::open(&files[file]).map_err(|e| wrong(file, e.to_string()))?;
            Reader::new(CountingFile { file: opened, progress }).map_err(|e| wrong(file, e.to_string()))
        };
        let mut sources = (0..files.len()).map(open).collect::<Result<Vec<_>, SweepError>>()?;
        let origins: Vec<Origin> = sources.iter().map(|source| source.header().origin).collect();
        let mut running = RunningTask::start(&once, &origins, *thp, turns.is_some(), self.options.threads)
            .map_err(|e| wrong(0, e.to_string()))?;
        let mut laid = self.start_laid(stream, &laid)?;
        let mut analyses: Vec<&mut dyn Analysis> =
            running.iter_mut().map(|running| running as &mut dyn Analysis).collect();
        analyses.extend(laid.iter_mut().flat_map(LayoutRuns::parts));
        if !analyses.is_empty() {
            let played = match turns {
                None => {
                    let source = &mut sources[0];
                    let read = |stretch: &mut Stretch, most| stretch.read(source, most).map_err(|e| (0, e));
                    pool.install(|| rounds::run(read, &mut analyses))
                }
                Some(turns) => {
                    let mut all = Interleave::new(sources, turns.clone());
                    let read = |stretch: &mut Stretch, most| stretch.read_turns(&mut all, most);
                    pool.install(|| rounds::run(read, &mut analyses))
                }
            };
            played.map_err(|(file, error)| wrong(file, error.to_string()))?;
        }
        let mut outcomes: Vec<(usize, TaskOutcome)> =
            running.into_iter().flat_map(RunningTask::finish).collect();
        outcomes.extend(laid.into_iter().flat_map(LayoutRuns::finish));
        let mut without_price = None;
        for (task, outcome) in &outcomes {
            if let (Task::Machine(variant, _) | Task::Laid(variant, _), TaskOutcome::Machine(metrics, _)) =
                (&self.tasks[*task], outcome)
                && let Some(why) = unpriced(&variant.machine, metrics)
            {
                without_price.get_or_insert(why);
                continue;
            }
            self.store.put(self.key(stream, *task).expect("its plan is made"), outcome)?;
        }
        let replay = |(number, task): &(usize, Task<'_>)| {
            let (machine, settings) = task.offline().expect("it is replayed");
            let outcome = TaskOutcome::Machine(offline::run(&files[0], machine, &settings)?, Vec::new());
            self.store.put(self.key(stream, *number).expect("it has no plan"), &outcome)?;
            Ok((*number, outcome))
        };
        let found: Result<Vec<_>, SweepError> = pool.install(|| replayed.par_iter().map(replay).collect());
        outcomes.extend(found?);
        // The others are kept.
        match without_price {
            Some(why) => Err(SweepError::Study { file: self.study.file.clone(), why }),
            None => Ok(outcomes),
        }
    }

    /// Makes the missing plans of one stream.
    fn make_plans(
        &mut self,
        stream: usize,
        pool: &ThreadPool,
        progress: &dyn Progress,
    ) -> Result<(), SweepError> {
        let of_stream =
            |(wanted, made): &(PlanRequest, Option<PlanOutput>)| wanted.trace == stream && made.is_none();
        let wanted: Vec<PlanRequest> =
            self.plans.iter().filter(|one| of_stream(one)).map(|(wanted, _)| *wanted).collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let path = &self.streams[stream].files[0];
        let wrong = |why: String| SweepError::Trace { path: path.clone(), why };
        let open = || {
            let file = File::open(path).map_err(|e| wrong(e.to_string()))?;
            Reader::new(CountingFile { file, progress }).map_err(|e| wrong(e.to_string()))
        };
        let from = From { study: self.study, events: &self.events(stream)?, pool };
        for (wanted, made) in from.make(&wanted, open, wrong)? {
            self.store.put(self.plan_key(&wanted), &TaskOutcome::Plan(made.clone()))?;
            let place = self.plans.iter_mut().find(|(known, _)| *known == wanted);
            place.expect("it was asked for").1 = Some(made);
        }
        Ok(())
    }

    /// Writes all plans as files.
    fn write_plans(&self) -> Result<(), SweepError> {
        self.plans.iter().filter_map(|(wanted, made)| Some((wanted, made.as_ref()?))).try_for_each(
            |(wanted, made)| {
                write_whole(&self.options.plans.join(wanted.file(self.study)), made.text.as_bytes())
            },
        )
    }

    /// The header and events of a single process's stream.
    fn events(&self, stream: usize) -> Result<Events, SweepError> {
        let path = &self.streams[stream].files[0];
        let wrong = |why: String| SweepError::Trace { path: path.clone(), why };
        let file = File::open(path).map_err(|e| wrong(e.to_string()))?;
        events(BufReader::with_capacity(1 << 20, file), Event::moves_memory).map_err(|e| wrong(e.to_string()))
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

    fn result(self) -> SweepResult {
        let (mut machines, mut families, mut curves) = (Vec::new(), Vec::new(), Vec::new());
        for (trace, outcomes) in self.outcomes.into_iter().enumerate() {
            let name = &self.streams[trace].about.name;
            for (task, outcome) in self.tasks.iter().zip(outcomes).filter(|(task, _)| task.is_for(name)) {
                match (task, outcome.expect("all tasks ended")) {
                    (Task::Laid(variant, laying), TaskOutcome::Machine(metrics, partition)) => {
                        machines.push(MachineCell {
                            trace,
                            machine: variant.machine.name.clone(),
                            os: None,
                            structure: None,
                            layout: Some(laying.spec.name.clone()),
                            layout_seed: laying.spec.seed(laying.draw),
                            parameters: variant.parameters.clone(),
                            metrics,
                            partition,
                        })
                    }
                    (Task::Machine(variant, system), TaskOutcome::Machine(metrics, partition)) => machines
                        .push(MachineCell {
                            trace,
                            machine: variant.machine.name.clone(),
                            os: system.0.map(|kernel| kernel.name.clone()),
                            structure: system.1.map(|structure| structure.name.clone()),
                            layout: None,
                            layout_seed: None,
                            parameters: variant.parameters.clone(),
                            metrics,
                            partition,
                        }),
                    (Task::Family(serves), TaskOutcome::Family(counts)) => {
                        let spec = self.study.family.as_ref().expect("the study has this task");
                        families.push(family_cell(trace, serves_name(*serves), spec, &counts));
                    }
                    (Task::Curve(serves) | Task::Sampled(serves, _), TaskOutcome::Curve(counts)) => {
                        curves.push(curve_cell(trace, serves_name(*serves), counts));
                    }
                    (task, _) => unreachable!("`{}` was given an outcome that fits", task.title()),
                }
            }
        }
        let plan = |(wanted, made): (PlanRequest, Option<PlanOutput>)| LayoutPlanRow {
            trace: wanted.trace,
            layout: self.study.layouts[wanted.layout].name.clone(),
            layout_seed: self.study.layouts[wanted.layout].seed(wanted.draw),
            machine: wanted.machine.map(|machine| label(&self.study.machines[machine])),
            file: wanted.file(self.study),
            did: made.expect("all plans were made").did,
        };
        let plans = self.plans.into_iter().map(plan).collect();
        let mut result = SweepResult {
            schema: SWEEP_SCHEMA.to_owned(),
            version: self.options.version.to_owned(),
            name: self.study.name.clone(),
            title: self.study.title.clone(),
            traces: self.streams.into_iter().map(|stream| stream.about).collect(),
            plans,
            machines,
            families,
            curves,
            comparisons: Vec::new(),
            published: self.study.published.clone(),
            plots: self.study.plots.clone(),
        };
        let compared = self.study.compare.iter().map(|spec| compare::evaluate(spec, &result));
        result.comparisons = compared.collect();
        result
    }
}

fn family_cell(trace: usize, serves: &str, spec: &FamilySpec, counts: &FamilyCounts) -> FamilyCell {
    let sizes = Family::PAGE_SIZES.iter().enumerate().filter(|(_, size)| spec.page_sizes.contains(size));
    let size = |(place, size): (usize, &pagewalk_units::PageSize)| {
        let row = |&sets: &u32| spec.ways.iter().map(|&ways| counts.misses_of(place, sets, ways)).collect();
        FamilySize {
            page_size: size.to_string(),
            page_bytes: size.bytes(),
            sets: spec.sets.clone(),
            ways: spec.ways.clone(),
            misses: spec.sets.iter().map(row).collect(),
        }
    };
    FamilyCell {
        trace,
        serves: serves.to_owned(),
        references: counts.references,
        sizes: sizes.map(size).collect(),
    }
}

fn curve_cell(trace: usize, serves: &str, counts: CurveCounts) -> CurveCell {
    let CurveCounts { references, method, entries, misses, standard_errors } = counts;
    CurveCell { trace, serves: serves.to_owned(), references, method, entries, misses, standard_errors }
}

/// A file that reports how much of it was read.
struct CountingFile<'a> {
    file: File,
    progress: &'a dyn Progress,
}

impl Read for CountingFile<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.progress.is_stopped() {
            return Err(std::io::Error::other("stopped"));
        }
        let read = self.file.read(buffer)?;
        self.progress.bytes(read as u64);
        Ok(read)
    }
}
