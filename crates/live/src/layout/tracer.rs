//! Places libraries in each new program, and checks where they landed.

use super::install::{StubInstaller, StubStep};
use super::landing::{State, landings};
use super::loader::LoaderCache;
use super::{Image, LayoutError, Obstacle, Options, Relay, Run};
use crate::tracing::follower::{Follower, JobStep, STOPS, Work, end_unbegun};
use crate::tracing::launch::{BeforeExec, LaunchError, launch};
use crate::tracing::maps;
use crate::tracing::sys::{self, Pid};
use pagewalk_layout::files::Object;
use std::ffi::OsString;

/// The work on a process.
enum Stage {
    /// The stub is being installed.
    Installing(Box<StubInstaller>),
    /// The stub is in place, and libraries are loading; stops at system calls.
    Loading(Box<StubInstaller>),
}

struct LayoutWork<'a> {
    objects: &'a [Object],
    options: Options,
    loaded: &'a mut dyn FnMut(&Image),
    known: LoaderCache,
    images: Vec<Image>,
    /// Why the first program cannot have the plan.
    refused: Option<Obstacle>,
}

/// Runs a program to its end.
pub fn trace(
    command: &[OsString],
    objects: &[Object],
    options: Options,
    relay: &Relay,
    loaded: &mut dyn FnMut(&Image),
) -> Result<Run, LayoutError> {
    let fixed = BeforeExec { does: &sys::switch_off_randomisation, failed: LaunchError::Randomisation };
    let root = launch(command, options.no_randomise.then_some(fixed), STOPS)?;
    relay.to(root);
    let (known, images) = (LoaderCache::default(), Vec::new());
    let work = LayoutWork { objects, options, loaded, known, images, refused: None };
    let mut follower = Follower::begin(work, root);
    if let Some(obstacle) = follower.work.refused.take() {
        let program = follower.work.images.swap_remove(0).program;
        relay.to(0);
        end_unbegun(root);
        return Err(LayoutError::Program { program, obstacle });
    }
    let (end, _) = follower.run(root).map_err(LaunchError::Io)?;
    relay.to(0);
    Ok(Run { end, images: follower.work.images, tracers: follower.tracers })
}

impl Work for LayoutWork<'_> {
    type Job = Stage;

    fn begin(&mut self, number: usize, pid: Pid) -> Option<Stage> {
        let begun = StubInstaller::begin(pid, self.objects, &mut self.known);
        let (obstacle, slid_bytes) = match &begun {
            Ok(installing) => (None, installing.slid_bytes),
            Err(obstacle) => (Some(obstacle.to_string()), 0),
        };
        let program = maps::program(pid);
        self.images.push(Image { process: pid, program, obstacle, slid_bytes, at_start: None, at_end: None });
        match begun {
            Ok(installing) => Some(Stage::Installing(Box::new(installing))),
            Err(obstacle) => {
                // A child's obstacle is reported with its image.
                self.refused = Some(obstacle).filter(|_| number == 0);
                None
            }
        }
    }

    fn on_call(&mut self, number: usize, pid: Pid, stage: Stage) -> JobStep<Stage> {
        let image = &mut self.images[number];
        match stage {
            Stage::Installing(mut installing) => match installing.step(pid) {
                Ok(StubStep::Another) => JobStep::Job(Stage::Installing(installing)),
                Ok(StubStep::Last) if self.options.verify || self.options.release => {
                    JobStep::Job(Stage::Loading(installing))
                }
                Ok(StubStep::Last) => JobStep::Done,
                Err(obstacle) => {
                    image.obstacle = Some(obstacle.to_string());
                    JobStep::Done
                }
            },
            Stage::Loading(installed)
                if sys::registers(pid).is_ok_and(|registers| installed.is_loaders(registers.rip)) =>
            {
                JobStep::Job(Stage::Loading(installed))
            }
            Stage::Loading(_) => {
                // The program's or its libraries' first own call: everything has been mapped.
                image.at_start = landings(pid, self.objects, image.slid_bytes);
                (self.loaded)(image);
                if self.options.release { JobStep::LetGo } else { JobStep::Done }
            }
        }
    }

    fn at_end(&mut self, number: usize, pid: Pid) {
        let image = &mut self.images[number];
        let misses = |landings: &[super::Landing]| {
            landings.iter().any(|landing| matches!(landing.state, State::Elsewhere(_)))
        };
        if !image.at_end.as_deref().is_some_and(misses)
            && let Some(found) = landings(pid, self.objects, image.slid_bytes)
        {
            image.at_end = Some(found);
        }
    }
}
