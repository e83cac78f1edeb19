//! Runs a program under a plan from start to end.

use super::install::{InstallSpec, InstallStep, PlanInstaller};
use super::plan::Plan;
use super::sites::SiteCache;
use super::table::PlanTable;
use super::watch::Watch;
use super::{Image, Obstacle, Options, PagesError, Run};
use crate::timing::{TimedRun, forget_own_peak};
use crate::tracing::follower::{Follower, JobStep, Relay, STOPS, Work, end_unbegun};
use crate::tracing::launch::{BeforeExec, LaunchError, launch};
use crate::tracing::maps;
use crate::tracing::sys::{self, Pid};
use std::ffi::OsString;
use std::fs;
use std::time::Instant;

struct PlanWork<'a> {
    wanted: InstallSpec<'a>,
    options: &'a Options,
    watch: &'a Watch<'a>,
    known: SiteCache,
    /// By image number: its index among the planned images.
    planned: Vec<Option<usize>>,
    images: Vec<Image>,
    others: Vec<String>,
    /// Why the first program cannot have the plan.
    refused: Option<Obstacle>,
}

/// Runs a program to its end with a plan's ranges on huge pages; so too the programs it starts, if they are the planned
/// one.
///
/// Call this on the thread that traces them; it waits there. Processes that outlive the first one run on, no longer
/// traced.
///
/// # Errors
/// If this host does not permit it, or the program cannot be started or changed.
pub fn run(command: &[OsString], plan: &Plan, options: &Options, relay: &Relay) -> Result<Run, PagesError> {
    let table = PlanTable::new(plan).map_err(|(file, error)| PagesError::File { file, error })?;
    let watch = Watch::new(plan, &table);
    let (work, tracers, timed) = std::thread::scope(|scope| {
        // Started before the program: a later thread would take the processor on which the program just stopped, and
        // the program would resume on another. After that, each of its unmappings would have to interrupt two
        // processors.
        let looks = scope.spawn(|| watch.run());
        let followed = follow(command, plan, options, relay, &table, &watch);
        watch.end();
        looks.thread().unpark();
        followed
    })?;
    let PlanWork { mut images, others, .. } = work;
    watch.finish(&mut images);
    Ok(Run { timed, images, others, tracers })
}

/// From start to end: the inspections, programs that trace others, and the first process's times.
fn follow<'a>(
    command: &[OsString],
    plan: &'a Plan,
    options: &'a Options,
    relay: &Relay,
    table: &'a PlanTable,
    watch: &'a Watch<'a>,
) -> Result<(PlanWork<'a>, Vec<String>, TimedRun), PagesError> {
    forget_own_peak();
    let begun = Instant::now();
    let leave = || options.input.as_deref().map_or(Ok(()), sys::leave_streams);
    let root = launch(command, Some(BeforeExec { does: &leave, failed: LaunchError::Io }), STOPS)?;
    relay.to(root);
    let work = PlanWork {
        wanted: InstallSpec { plan, table, keep_small: options.keep_small },
        options,
        watch,
        known: SiteCache::default(),
        planned: Vec::new(),
        images: Vec::new(),
        others: Vec::new(),
        refused: None,
    };
    let mut follower = Follower::begin(work, root);
    if let Some(obstacle) = follower.work.refused.take().filter(|_| !options.or_default) {
        let program = follower.work.images.swap_remove(0).program;
        relay.to(0);
        end_unbegun(root);
        return Err(PagesError::Program { program, obstacle });
    }
    let ended = follower.run(root);
    let wall = begun.elapsed();
    relay.to(0);
    let (end, used) = ended.map_err(LaunchError::Io)?;
    Ok((follower.work, follower.tracers, TimedRun::of(end, wall, used)))
}

impl Work for PlanWork<'_> {
    type Job = Box<PlanInstaller>;

    fn begin(&mut self, number: usize, pid: Pid) -> Option<Box<PlanInstaller>> {
        let program = maps::program(pid);
        let is_planned = fs::canonicalize(&program).is_ok_and(|program| program == self.options.program);
        self.planned.push(is_planned.then_some(self.images.len()));
        if !is_planned {
            if !self.others.contains(&program) {
                self.others.push(program);
            }
            return None;
        }
        self.images.push(Image { process: pid, program, obstacle: None, ranges: Vec::new() });
        match PlanInstaller::begin(pid) {
            Ok(installing) => Some(Box::new(installing)),
            Err(obstacle) => {
                self.fail(number, &obstacle);
                self.refused = Some(obstacle).filter(|_| number == 0);
                None
            }
        }
    }

    fn on_call(
        &mut self,
        number: usize,
        pid: Pid,
        mut job: Box<PlanInstaller>,
    ) -> JobStep<Box<PlanInstaller>> {
        match job.step(pid, &self.wanted, &mut self.known) {
            Ok(InstallStep::Another) => JobStep::Job(job),
            Ok(InstallStep::Installed(table)) => {
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

    fn at_end(&mut self, number: usize, thread: Pid) {
        if let Some(image) = self.planned[number] {
            self.watch.at_end(image, thread);
        }
    }
}

impl PlanWork<'_> {
    fn fail(&mut self, number: usize, obstacle: &Obstacle) {
        if let Some(image) = self.planned[number] {
            self.images[image].obstacle = Some(obstacle.to_string());
        }
    }
}
