//! Places libraries in each new program, and checks where they landed.

use super::install::{StubInstaller, StubStep};
use super::landing::{State, landings};
use super::loader::LoaderCache;
use super::{LayoutError, LayoutImage, LayoutRun, Obstacle, PlacementOptions, Relay};
use crate::tracing::follower::{Follower, JobStep, STOPS, Work, end_unbegun};
use crate::tracing::launch::{BeforeExec, LaunchError, launch};
use crate::tracing::maps;
use crate::tracing::sys::{self, Pid};
use pagewalk_layout::files::Object;
use std::collections::HashMap;
use std::ffi::OsString;
use std::ops::Range;

/// The work on a process.
pub enum Stage {
    /// The stub is being installed.
    Installing(Box<StubInstaller>),
    /// The stub is in place, and libraries are loading; stops at system calls.
    Loading(Box<StubInstaller>),
}

/// Places objects in images.
pub struct LayoutWork<'a, F> {
    objects: &'a [Object],
    options: PlacementOptions,
    /// Called for each image whose loader is done, if [`PlacementOptions::verify`] is set.
    loaded: F,
    known: LoaderCache,
    /// By image number: the code that calls `mmap` for its loader.
    stubs: HashMap<usize, Range<u64>>,
    /// By number.
    pub images: Vec<LayoutImage>,
    /// Why the first program cannot have the plan.
    pub refused: Option<Obstacle>,
}

/// Runs a program to its end.
pub fn trace(
    command: &[OsString],
    objects: &[Object],
    options: PlacementOptions,
    relay: &Relay,
    loaded: &mut dyn FnMut(&LayoutImage),
) -> Result<LayoutRun, LayoutError> {
    let fixed = BeforeExec { does: &sys::switch_off_randomisation, failed: LaunchError::Randomisation };
    let root = launch(command, options.no_randomise.then_some(fixed), STOPS)?;
    relay.to(root);
    let mut follower = Follower::begin(LayoutWork::new(objects, options, loaded), root);
    if let Some(obstacle) = follower.work.refused.take() {
        let program = follower.work.images.swap_remove(0).program;
        relay.to(0);
        end_unbegun(root);
        return Err(LayoutError::Program { program, obstacle });
    }
    let (end, _) = follower.run(root).map_err(LaunchError::Io)?;
    relay.to(0);
    Ok(LayoutRun { end, images: follower.work.images, tracers: follower.tracers })
}

impl<'a, F: FnMut(&LayoutImage)> LayoutWork<'a, F> {
    /// Before any image has begun.
    pub fn new(objects: &'a [Object], options: PlacementOptions, loaded: F) -> LayoutWork<'a, F> {
        let (known, stubs, images) = (LoaderCache::default(), HashMap::new(), Vec::new());
        LayoutWork { objects, options, loaded, known, stubs, images, refused: None }
    }

    /// The code that calls `mmap` for an image's loader; empty if there is none.
    pub fn stub(&self, number: usize) -> Range<u64> {
        self.stubs.get(&number).cloned().unwrap_or_default()
    }

    /// Records where an image's objects lie when its loader is done.
    pub fn look(&mut self, number: usize, pid: Pid) {
        let image = &mut self.images[number];
        image.at_start = landings(pid, self.objects, image.slid_bytes);
    }
}

impl<F: FnMut(&LayoutImage)> Work for LayoutWork<'_, F> {
    type Job = Stage;

    fn begin(&mut self, number: usize, pid: Pid) -> Option<Stage> {
        let begun = StubInstaller::begin(pid, self.objects, &mut self.known);
        let (obstacle, slid_bytes) = match &begun {
            Ok(installing) => (None, installing.slid_bytes),
            Err(obstacle) => (Some(obstacle.to_string()), 0),
        };
        let program = maps::program(pid);
        self.images.push(LayoutImage {
            process: pid,
            program,
            obstacle,
            slid_bytes,
            at_start: None,
            at_end: None,
        });
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
        match stage {
            Stage::Installing(mut installing) => match installing.step(pid) {
                Ok(StubStep::Another) => JobStep::Job(Stage::Installing(installing)),
                Ok(StubStep::Last) => {
                    self.stubs.insert(number, installing.stub());
                    match self.options.verify || self.options.release {
                        true => JobStep::Job(Stage::Loading(installing)),
                        false => JobStep::Done,
                    }
                }
                Err(obstacle) => {
                    self.images[number].obstacle = Some(obstacle.to_string());
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
                self.look(number, pid);
                (self.loaded)(&self.images[number]);
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
