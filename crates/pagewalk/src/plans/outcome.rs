//! Reports what a plan did: tables, failures, JSON.

use super::fitting::FittedPlan;
use crate::native::traces_others;
use crate::placement::landings::Landings;
use pagewalk_live::pages::{PagesImage, PagesRun, RangeOutcome, Reason};
use pagewalk_plan::{Caller, Plan, What};
use pagewalk_report::Class;
use pagewalk_report::documents::plans::{PlanFile, PlannedImage, PlannedRange};
use std::fmt::Write;
use std::path::Path;

/// Bytes as MiB.
pub fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Harmless facts that the user should know.
pub fn notes(fitting: &FittedPlan, run: &PagesRun) -> Vec<String> {
    let plan = &fitting.plan;
    let mut notes = landings(fitting, run).notes();
    for image in &run.images {
        if let Some(obstacle) = &image.obstacle {
            notes.push(format!("{} ran without the plan: {obstacle}", image.program));
        }
        for (range, outcome) in plan.ranges.iter().zip(&image.ranges) {
            if let Some((planned, found)) = other_caller(&range.what, outcome) {
                notes.push(format!(
                    "{}: mapped by {}+{:#x}, planned for {}+{:#x}",
                    range.what, found.file, found.offset, planned.file, planned.offset
                ));
            }
        }
    }
    notes.dedup();
    notes.extend(run.tracers.iter().map(traces_others));
    notes
}

/// The planned and the actual caller, if they differ.
fn other_caller<'a>(what: &'a What, outcome: &'a RangeOutcome) -> Option<(&'a Caller, &'a Caller)> {
    match (what, &outcome.caller) {
        (What::Anonymous { by: Some(planned), .. }, Some(found)) if planned != found => {
            Some((planned, found))
        }
        _ => None,
    }
}

/// Where the plan's libraries lay.
pub fn landings<'a>(fitting: &'a FittedPlan, run: &'a PagesRun) -> Landings<'a> {
    Landings { objects: &fitting.objects, images: &run.placed }
}

/// Why the plan did not take effect: some mapped ranges are not on huge pages, some libraries lie elsewhere, or nothing
/// of the plan appeared.
pub fn missed(fitting: &FittedPlan, run: &PagesRun) -> Option<String> {
    let plan = &fitting.plan;
    if run.images.is_empty() {
        let others = run.others.join(", ");
        return Some(format!("the plan's program {} did not run; there ran {others}", plan.program.path));
    }
    let mut lines: Vec<String> = landings(fitting, run).missed().into_iter().collect();
    for image in &run.images {
        for (range, outcome) in plan.ranges.iter().zip(&image.ranges) {
            if let Some(reason) = outcome.reason.as_ref().filter(|reason| reason.is_fault()) {
                lines.push(format!("{range}, of process {}: {reason}", image.process));
            }
        }
    }
    let took = |image: &PagesImage| image.ranges.iter().any(is_huge);
    if lines.is_empty() && !plan.ranges.is_empty() && !run.images.iter().any(took) {
        let reasons =
            run.images.iter().flat_map(|image| &image.ranges).filter_map(|range| range.reason.as_ref());
        let mut told: Vec<String> = reasons.map(ToString::to_string).collect();
        told.extend(run.images.iter().filter_map(|image| image.obstacle.clone()));
        told.sort();
        told.dedup();
        lines.push(format!("no range took: {}", told.join("; ")));
    }
    (!lines.is_empty()).then(|| lines.join("\n  "))
}

/// Whether a range is on huge pages, through the plan or without it.
fn is_huge(outcome: &RangeOutcome) -> bool {
    outcome.reason.as_ref().is_none_or(Reason::is_huge)
}

/// The ranges of each image, and where libraries lay, as text.
pub fn tables(fitting: &FittedPlan, run: &PagesRun) -> String {
    let ranges = run.images.iter().filter(|_| !fitting.plan.ranges.is_empty());
    ranges.map(|image| table(&fitting.plan, image)).chain([landings(fitting, run).tables()]).collect()
}

/// An image's ranges, as text.
fn table(plan: &Plan, image: &PagesImage) -> String {
    let mut text = format!("process {} ({})\n", image.process, image.program);
    let names: Vec<String> = plan.ranges.iter().map(ToString::to_string).collect();
    let width = names.iter().map(String::len).max().unwrap_or(0).max(5);
    if !image.ranges.is_empty() {
        let _ =
            writeln!(text, "  {:width$}  {:>9}  {:>9}  {:>9}  (MiB)", "range", "mapped", "touched", "huge");
    }
    for (name, outcome) in names.iter().zip(&image.ranges) {
        let best = outcome.best.unwrap_or_default();
        let (mapped, touched, huge) = (mib(best.mapped), mib(best.touched), mib(best.huge));
        let reason = outcome.reason.as_ref().map_or_else(String::new, |reason| format!("  {reason}"));
        let _ = writeln!(text, "  {name:width$}  {mapped:>9.1}  {touched:>9.1}  {huge:>9.1}{reason}");
    }
    text
}

/// The classes of images' figures.
pub const FIGURES: (Class, &[&str]) = (
    Class::Measured,
    &[
        "marked_bytes",
        "collapsed_bytes",
        "mapped_bytes",
        "whole_block_bytes",
        "touched_block_bytes",
        "resident_bytes",
        "huge_bytes",
        "huge_bytes_last",
    ],
);

/// The plan's file as data.
pub fn plan_file(path: &Path, plan: &Plan) -> PlanFile {
    let (file, program) = (path.to_string_lossy().into_owned(), plan.program.path.clone());
    PlanFile { file, program, ranges: plan.ranges.len() }
}

/// An image as data.
pub fn image(plan: &Plan, image: &PagesImage) -> PlannedImage {
    let rows = plan.ranges.iter().zip(&image.ranges).map(|(range, outcome)| row(&range.what, outcome));
    PlannedImage {
        process: image.process,
        program: image.program.clone(),
        obstacle: image.obstacle.clone(),
        ranges: rows.collect(),
    }
}

fn row(what: &What, outcome: &RangeOutcome) -> PlannedRange {
    let best = outcome.best.unwrap_or_default();
    PlannedRange {
        range: what.to_string(),
        start: outcome.start.map(|start| format!("{start:#x}")),
        caller: outcome.caller.as_ref().map(|by| format!("{}+{:#x}", by.file, by.offset)),
        marked_bytes: outcome.marked_bytes,
        collapsed_bytes: outcome.collapsed_bytes,
        mapped_bytes: best.mapped,
        whole_block_bytes: best.whole,
        touched_block_bytes: best.touched,
        resident_bytes: best.resident,
        huge_bytes: best.huge,
        huge_bytes_last: outcome.last.map(|last| last.huge),
        reason: outcome.reason.as_ref().map(ToString::to_string),
        in_effect: is_huge(outcome),
    }
}
