//! Runs a program under a plan from start to end.

use super::install::{InstallSpec, InstallStep, PlanInstaller};
use super::sites::SiteCache;
use super::table::PlanTable;
use super::watch::Watch;
use super::{Obstacle, PagesError, PagesImage, PagesOptions, PagesRun};
use crate::layout::tracer::{self, LayoutWork};
use crate::layout::{self, LayoutError};
use crate::timing::{TimedRun, forget_own_peak};
use crate::tracing::follower::{Follower, JobStep, Relay, STOPS, Work, end_unbegun};
use crate::tracing::launch::{BeforeExec, LaunchError, launch};
use crate::tracing::maps;
use crate::tracing::sys::{self, Pid};
use pagewalk_plan::Plan;
use std::ffi::OsString;
use std::fs;
use std::time::Instant;

struct PlanWork<'a> {
    wanted: InstallSpec<'a>,
    options: &'a PagesOptions,
    watch: &'a Watch<'a>,
    known: SiteCache,
    /// By image number: its index among the planned images.
    planned: Vec<Option<usize>>,
    images: Vec<PagesImage>,
    others: Vec<String>,
    /// Places objects, if the plan has places for some.
    placing: Option<LayoutWork<'a, fn(&layout::LayoutImage)>>,
    /// Why the first program cannot have its ranges.
    refused: Option<Obstacle>,
}

/// The work on a process.
enum Stage {
    /// It gets the code that places its objects.
    Placing(tracer::Stage),
    /// It gets the code that marks its ranges.
    Installing(Box<PlanInstaller>),
}

/// Runs a program to its end with the ranges of a plan on huge pages, and the programs that it starts too if they are
/// the planned one. In all of them, the objects of `options` are placed.
///
/// Call this on the thread that traces them; it waits there. Processes that outlive the first one run on, no longer
/// traced.
///
/// # Errors
/// If this host does not permit it, or the program cannot be started or changed.
pub fn run(
    command: &[OsString],
    plan: &Plan,
    options: &PagesOptions,
    relay: &Relay,
) -> Result<PagesRun, PagesError> {
    let table = PlanTable::new(plan).map_err(|(file, error)| PagesError::File { file, error })?;
    let watch = Watch::new(plan, &table);
    let (work, tracers, timed) = std::thread::scope(|scope| {
        // Started before the program: a later thread would take the processor on which the program just stopped, and
        // the program would resume on another. After that, each of its unmappings would have to interrupt two
        // processors.
        let looks = scope.spawn(|| watch.run());
        let placing = (!options.objects.is_empty()).then(|| {
            let release = options.release && plan.ranges.is_empty();
            let how = layout::PlacementOptions { release, ..layout::PlacementOptions::default() };
            LayoutWork::new(&options.objects, how, nobody as fn(&layout::LayoutImage))
        });
        let work = PlanWork::new(plan, options, &table, &watch, placing);
        let followed = follow(command, work, relay);
        watch.end();
        looks.thread().unpark();
        followed
    })?;
    let PlanWork { mut images, others, placing, .. } = work;
    let placed = placing.map_or_else(Vec::new, |placing| placing.images);
    watch.finish(&mut images);
    Ok(PagesRun { timed, images, others, placed, tracers })
}

fn nobody(_: &layout::LayoutImage) {}

/// From start to end: the inspections, programs that trace others, and the first process's times.
fn follow<'a>(
    command: &[OsString],
    work: PlanWork<'a>,
    relay: &Relay,
) -> Result<(PlanWork<'a>, Vec<String>, TimedRun), PagesError> {
    let options = work.options;
    forget_own_peak();
    let begun = Instant::now();
    let leave = || options.input.as_deref().map_or(Ok(()), sys::leave_streams);
    let root = launch(command, Some(BeforeExec { does: &leave, failed: LaunchError::Io }), STOPS)?;
    relay.to(root);
    let mut follower = Follower::begin(work, root);
    if let Some(refusal) = follower.work.refusal(maps::program(root)).filter(|_| !options.or_default) {
        relay.to(0);
        end_unbegun(root);
        return Err(refusal);
    }
    let ended = follower.run(root);
    let wall = begun.elapsed();
    relay.to(0);
    let (end, used) = ended.map_err(LaunchError::Io)?;
    Ok((follower.work, follower.tracers, TimedRun::of(end, wall, used)))
}

impl Work for PlanWork<'_> {
    type Job = Stage;

    fn begin(&mut self, number: usize, pid: Pid) -> Option<Stage> {
        let placing = self.placing.as_mut().and_then(|placing| placing.begin(number, pid));
        let program = maps::program(pid);
        let is_planned = fs::canonicalize(&program).is_ok_and(|program| program == self.options.program);
        self.planned.push(is_planned.then_some(self.images.len()));
        if !is_planned {
            if !self.others.contains(&program) {
                self.others.push(program);
            }
        } else {
            self.images.push(PagesImage { process: pid, program, obstacle: None, ranges: Vec::new() });
        }
        // Tried even where objects are placed first, so that an obstacle is known before the program begins.
        let installing = self.install(number, pid);
        placing.map(Stage::Placing).or(installing)
    }

    fn on_call(&mut self, number: usize, pid: Pid, stage: Stage) -> JobStep<Stage> {
        match (stage, &mut self.placing) {
            (Stage::Placing(stage), Some(placing)) => match placing.on_call(number, pid, stage) {
                JobStep::Job(stage) => JobStep::Job(Stage::Placing(stage)),
                JobStep::Done => self.install(number, pid).map_or(JobStep::Done, JobStep::Job),
                JobStep::LetGo => JobStep::LetGo,
            },
            (Stage::Placing(_), None) => JobStep::Done,
            (Stage::Installing(installing), _) => self.step(number, pid, installing),
        }
    }

    fn at_end(&mut self, number: usize, thread: Pid) {
        if let Some(image) = self.planned[number] {
            self.watch.at_end(image, thread);
        }
        if let Some(placing) = &mut self.placing {
            placing.at_end(number, thread);
        }
    }
}

impl<'a> PlanWork<'a> {
    fn new(
        plan: &'a Plan,
        options: &'a PagesOptions,
        table: &'a PlanTable,
        watch: &'a Watch<'a>,
        placing: Option<LayoutWork<'a, fn(&layout::LayoutImage)>>,
    ) -> PlanWork<'a> {
        PlanWork {
            wanted: InstallSpec { plan, table, keep_small: options.keep_small },
            options,
            watch,
            known: SiteCache::default(),
            planned: Vec::new(),
            images: Vec::new(),
            others: Vec::new(),
            placing,
            refused: None,
        }
    }

    /// Why the first program cannot have the plan.
    fn refusal(&mut self, program: String) -> Option<PagesError> {
        if let Some(obstacle) = self.placing.as_mut().and_then(|placing| placing.refused.take()) {
            return Some(LayoutError::Program { program, obstacle }.into());
        }
        self.refused.take().map(|obstacle| PagesError::Program { program, obstacle })
    }

    /// Begins to install the code that marks ranges in an image, if the plan has ranges for it.
    fn install(&mut self, number: usize, pid: Pid) -> Option<Stage> {
        let image = self.planned[number].filter(|_| !self.wanted.plan.ranges.is_empty())?;
        if self.images[image].obstacle.is_some() {
            return None;
        }
        let stub = self.placing.as_ref().map_or(0..0, |placing| placing.stub(number));
        match PlanInstaller::begin(pid, stub) {
            Ok(installing) => Some(Stage::Installing(Box::new(installing))),
            Err(obstacle) => {
                self.fail(number, &obstacle);
                self.refused = Some(obstacle).filter(|_| number == 0);
                None
            }
        }
    }

    fn step(&mut self, number: usize, pid: Pid, mut installing: Box<PlanInstaller>) -> JobStep<Stage> {
        match installing.step(pid, &self.wanted, &mut self.known) {
            Ok(InstallStep::Another) => JobStep::Job(Stage::Installing(installing)),
            Ok(InstallStep::Installed(table)) => {
                if let Some(placing) = &mut self.placing {
                    placing.look(number, pid);
                }
                let image = self.planned[number].unwrap_or(0);
                if let Err(error) = self.watch.add(image, pid, table) {
                    self.fail(number, &error.into());
                }
                if self.options.release { JobStep::LetGo } else { JobStep::Done }
            }
            Err(obstacle) => {
                self.fail(number, &obstacle);
                JobStep::Done
            }
        }
    }

    fn fail(&mut self, number: usize, obstacle: &Obstacle) {
        if let Some(image) = self.planned[number] {
            self.images[image].obstacle = Some(obstacle.to_string());
        }
    }
}
