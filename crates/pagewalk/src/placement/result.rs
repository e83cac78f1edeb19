//! Reports a run with a layout plan: a table, notes, JSON.

use super::fitting::FittedLayout;
use super::landings::Landings;
use crate::native::{end, traces_others};
use pagewalk_live::layout::LayoutRun;
use pagewalk_report::documents::layout_run::{LAYOUT_RUN_SCHEMA, LayoutPlanFile, LayoutRunResult, PlacedRun};
use std::ffi::OsString;
use std::path::Path;

/// A run and its plan.
pub struct LayoutOutcome {
    /// The plan beside this host.
    pub fitting: FittedLayout,
    /// What was seen of it.
    pub run: LayoutRun,
}

impl LayoutOutcome {
    /// Where the plan's libraries lay.
    pub fn landings(&self) -> Landings<'_> {
        Landings { objects: &self.fitting.objects, images: &self.run.images }
    }

    /// Harmless facts that the user should know.
    pub fn notes(&self) -> Vec<String> {
        let tracers = self.run.tracers.iter().map(traces_others);
        self.landings().notes().into_iter().chain(tracers).collect()
    }

    /// Everything as data.
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
pub(super) fn plan_file(path: &Path, fitting: &FittedLayout) -> LayoutPlanFile {
    let FittedLayout { program, layout, objects } = fitting;
    LayoutPlanFile {
        file: path.to_string_lossy().into_owned(),
        planner: layout.planner.clone(),
        machines: layout.machines.clone(),
        program: program.path.clone(),
        arena: format!("{:#x}", layout.arena),
        libraries: objects.len(),
    }
}
