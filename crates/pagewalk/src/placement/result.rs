//! Reports a run with a layout plan: a table, notes, JSON.

use crate::native::{end, traces_others};
use pagewalk_layout::Plan;
use pagewalk_layout::files::Object;
use pagewalk_live::layout::{Image, Landing, Run, State};
use pagewalk_report::documents::layout_run::{
    LAYOUT_RUN_SCHEMA, LaidImage, LaidLibrary, LaidRun, LayoutPlanFile, LayoutRunResult,
};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt::Write;
use std::path::Path;

/// Most misplaced libraries to report one by one.
const MISSES_TOLD: usize = 10;

/// A run and its plan.
pub struct LayoutOutcome {
    /// The plan.
    pub plan: Plan,
    /// Its objects as they are on this host.
    pub objects: Vec<Object>,
    /// Where they landed.
    pub run: Run,
}

/// An image's last landings.
fn latest(image: &Image) -> Option<&[Landing]> {
    image.at_end.as_deref().or(image.at_start.as_deref())
}

impl LayoutOutcome {
    /// The loaded libraries that lie elsewhere; none if all landed.
    pub fn missed(&self) -> Option<String> {
        let mut lines = Vec::new();
        for image in &self.run.images {
            for landing in latest(image).unwrap_or_default() {
                let State::Elsewhere(reason) = &landing.state else { continue };
                let object = &self.objects[landing.object];
                let reason = image.obstacle.as_ref().unwrap_or(reason);
                let of = format!("process {} ({})", image.process, image.program);
                lines.push(format!(
                    "{} did not land at {:#x} in {of}: {reason}",
                    object.file, landing.planned
                ));
            }
        }
        let rest = lines.len().saturating_sub(MISSES_TOLD);
        lines.truncate(MISSES_TOLD);
        if rest > 0 {
            lines.push(format!("and {rest} more"));
        }
        (!lines.is_empty()).then(|| lines.join("\n  "))
    }

    /// Harmless facts that the user should know.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = BTreeSet::new();
        for image in &self.run.images {
            if let Some(obstacle) = &image.obstacle {
                notes.insert(format!("{} ran without the plan: {obstacle}", image.program));
            }
            if image.slid_bytes > 0 {
                let gib = image.slid_bytes >> 30;
                notes.insert(format!("{}: the plan was moved up by {gib} GiB", image.program));
            }
        }
        notes.extend(self.run.tracers.iter().map(traces_others));
        let unopened = self.unopened();
        if !unopened.is_empty() {
            let (few, all) = (unopened.len(), self.objects.len());
            let named = unopened[..few.min(MISSES_TOLD)].join(", ");
            let more = if few > MISSES_TOLD { ", …" } else { "" };
            notes.insert(format!("{few} of {all} planned libraries were not seen loaded: {named}{more}"));
        }
        notes.into_iter().collect()
    }

    /// Planned libraries that no examined image had loaded.
    fn unopened(&self) -> Vec<&str> {
        let images = self.run.images.iter().flat_map(|image| [&image.at_start, &image.at_end]);
        let loaded: BTreeSet<usize> = images.flatten().flatten().map(|landing| landing.object).collect();
        let unopened = (0..self.objects.len()).filter(|position| !loaded.contains(position));
        unopened.map(|position| self.objects[position].file.as_str()).collect()
    }

    /// As text: where libraries lay at the end, one table per examined image.
    pub fn tables(&self) -> String {
        let at_end = |image: &Image| Some(table(image, &self.objects, image.at_end.as_ref()?, "at the end"));
        self.run.images.iter().filter_map(at_end).collect()
    }

    /// Everything as data.
    pub fn document(&self, plan: &Path, command: &[OsString]) -> LayoutRunResult {
        LayoutRunResult::Run(LaidRun {
            schema: LAYOUT_RUN_SCHEMA,
            plan: plan_file(plan, &self.plan, self.objects.len()),
            command: command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
            end: end(self.run.end),
            in_effect: self.missed().is_none(),
            not_loaded: self.unopened().into_iter().map(str::to_owned).collect(),
            images: self.run.images.iter().map(|image| self.image(image)).collect(),
        })
    }

    fn image(&self, image: &Image) -> LaidImage {
        let row = |landing: &Landing| library(&self.objects[landing.object], landing);
        let at = |landings: &Option<Vec<Landing>>| {
            landings.as_ref().map(|landings| landings.iter().map(row).collect())
        };
        LaidImage {
            process: image.process,
            program: image.program.clone(),
            obstacle: image.obstacle.clone(),
            slid_bytes: image.slid_bytes,
            at_start: at(&image.at_start),
            at_end: at(&image.at_end),
        }
    }
}

/// The plan's file as data.
pub(super) fn plan_file(path: &Path, plan: &Plan, libraries: usize) -> LayoutPlanFile {
    LayoutPlanFile {
        file: path.to_string_lossy().into_owned(),
        planner: plan.planner.clone(),
        machines: plan.machines.clone(),
        program: plan.program.path.clone(),
        arena: format!("{:#x}", plan.arena),
        libraries,
    }
}

fn library(object: &Object, landing: &Landing) -> LaidLibrary {
    let reason = if let State::Elsewhere(reason) = &landing.state { Some(reason.clone()) } else { None };
    LaidLibrary {
        file: object.file.clone(),
        planned: format!("{:#x}", landing.planned),
        actual: format!("{:#x}", landing.actual),
        bytes: object.bytes,
        state: landing.state.name(),
        reason,
    }
}

/// Where an image's libraries lie, as text; libraries that are not loaded are only counted.
pub(super) fn table(image: &Image, objects: &[Object], landings: &[Landing], when: &str) -> String {
    let mut text = format!("process {} ({}), {when}:\n", image.process, image.program);
    if let Some(obstacle) = &image.obstacle {
        let _ = writeln!(text, "  without the plan: {obstacle}");
    }
    let file = |landing: &Landing| &objects[landing.object].file;
    let width = landings.iter().map(|landing| file(landing).len()).max().unwrap_or(0).max(4);
    if !landings.is_empty() {
        let _ = writeln!(text, "  {:width$}  {:>14}  {:>14}  state", "file", "planned", "actual");
    }
    for landing in landings {
        let Landing { planned, actual, state, .. } = landing;
        let reason = if let State::Elsewhere(reason) = state { format!(": {reason}") } else { String::new() };
        let _ = writeln!(
            text,
            "  {:width$}  {planned:>#14x}  {actual:>#14x}  {}{reason}",
            file(landing),
            state.name()
        );
    }
    if landings.len() < objects.len() {
        let _ = writeln!(text, "  {} of {} are not loaded", objects.len() - landings.len(), objects.len());
    }
    text
}
