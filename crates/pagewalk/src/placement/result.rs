//! What a run with a plan is told as: a table, notes, JSON.

use super::fitting::Fitting;
use super::landings::Landings;
use crate::native::{end, traces_others};
use pagewalk_live::layout::Run;
use pagewalk_report::documents::layout_run::{LAYOUT_RUN_SCHEMA, LayoutPlanFile, LayoutRunResult, PlacedRun};
use std::ffi::OsString;
use std::path::Path;

/// A run and its plan.
pub struct Outcome {
    /// The plan beside this host.
    pub fitting: Fitting,
    /// What was seen of it.
    pub run: Run,
}

impl Outcome {
    /// Where the plan's libraries lay.
    pub fn landings(&self) -> Landings<'_> {
        Landings { objects: &self.fitting.objects, images: &self.run.images }
    }

    /// What is no fault, and should be known.
    pub fn notes(&self) -> Vec<String> {
        let tracers = self.run.tracers.iter().map(traces_others);
        self.landings().notes().into_iter().chain(tracers).collect()
    }

    /// All as data.
    pub fn document(&self, plan: &Path, command: &[OsString]) -> LayoutRunResult {
        let landings = self.landings();
        LayoutRunResult::Run(PlacedRun {
            schema: LAYOUT_RUN_SCHEMA,
            plan: plan_file(plan, &self.fitting),
            command: command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
            end: end(self.run.end),
            in_effect: landings.missed().is_none(),
            not_loaded: landings.not_loaded().into_iter().map(str::to_owned).collect(),
            images: landings.documents(),
        })
    }
}

/// The plan's file as data.
pub(super) fn plan_file(path: &Path, fitting: &Fitting) -> LayoutPlanFile {
    let Fitting { program, layout, objects } = fitting;
    LayoutPlanFile {
        file: path.to_string_lossy().into_owned(),
        planner: layout.planner.clone(),
        machines: layout.machines.clone(),
        program: program.path.clone(),
        arena: format!("{:#x}", layout.arena),
        libraries: objects.len(),
    }
}
