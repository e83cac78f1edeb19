//! What a plan would do, and whether this host allows it.

use super::fitting::FittedPlan;
use super::outcome::plan_file;
use crate::error::{Error, Fault};
use crate::program::{OR_DEFAULT, check_command};
use pagewalk_layout::files::Object;
use pagewalk_live::layout::check_host;
use pagewalk_live::pages::{self, HUGE_BYTES, HostConditions, Mode};
use pagewalk_plan::What;
use pagewalk_report::documents::plans::{APPLY_SCHEMA, ApplyResult, PlanDryRun, PlannedChange};
use pagewalk_report::{Class, classes, printable};
use std::ffi::OsString;
use std::path::Path;

/// A preview of a plan.
pub struct PlanPreview {
    /// For people.
    pub text: String,
    /// As data.
    pub document: ApplyResult,
    notes: Vec<String>,
    missing: Vec<String>,
}

impl PlanPreview {
    /// Differences from where the plan was made, and what this host lacks.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Checks that this host allows it.
    ///
    /// # Errors
    /// What the host lacks.
    pub fn check_host(&self) -> Result<(), Error> {
        match self.missing[..] {
            [] => Ok(()),
            _ => Err(Error::new(Fault::HostCannot, self.missing.join("\n  "))),
        }
    }
}

/// Checks the plan at `path`, and the program if given; runs nothing.
///
/// # Errors
/// If the plan does not fit.
pub fn outline(path: &Path, program: Option<&OsString>) -> Result<PlanPreview, Error> {
    let fitting = FittedPlan::new(path)?;
    if let Some(program) = program {
        check_command(program, OR_DEFAULT)?;
    }
    let around = HostConditions::of(std::process::id() as i32);
    let missing = missing(&fitting, &around);
    let ranges = fitting.plan.ranges.iter();
    let ranges = ranges.map(|range| (range.what.to_string(), step(&range.what, fitting.mode)));
    let place = |object: &Object| (object.file.clone(), format!("placed at {:#x}", object.base));
    let steps: Vec<(String, String)> = ranges.chain(fitting.objects.iter().map(place)).collect();
    let document = ApplyResult::Dry(PlanDryRun {
        schema: APPLY_SCHEMA,
        dry_run: true,
        plan: plan_file(path, &fitting.plan),
        mode: fitting.mode.name(),
        free_blocks: around.free_blocks,
        classes: classes(&[(Class::Measured, &["free_blocks"])]),
        ranges: steps.iter().cloned().map(|(range, would)| PlannedChange { range, would }).collect(),
        missing: missing.clone(),
        notes: fitting.notes.clone(),
    });
    let text: String = steps.iter().map(|(range, step)| format!("{}: {step}\n", printable(range))).collect();
    Ok(PlanPreview { text, document, notes: fitting.notes, missing })
}

/// What this host lacks for a plan.
fn missing(fitting: &FittedPlan, around: &HostConditions) -> Vec<String> {
    let mut missing = Vec::new();
    if let Err(error) = check_host() {
        missing.push(format!("{error}; to enable: {}", error.enable()));
    }
    // The rest is about huge pages.
    if fitting.plan.ranges.is_empty() {
        return missing;
    }
    if fitting.mode == Mode::Never
        && let Err(error) = pages::check_host()
    {
        missing.push(format!("{error}; to enable: {}", error.enable()));
    }
    if around.disabled {
        missing.push(
            "this process has switched huge pages off (PR_SET_THP_DISABLE), and programs inherit it"
                .to_owned(),
        );
    }
    if around.free_blocks == Some(0) {
        missing.push("no free block of 2 MiB is left (/proc/buddyinfo)".to_owned());
    }
    if around.limited {
        missing.push("the memory limit of this cgroup is nearly reached (memory.max)".to_owned());
    }
    missing
}

/// What would be done to a range.
fn step(what: &What, mode: Mode) -> String {
    if what.part().bytes() < HUGE_BYTES {
        return "nothing would come of it: it is shorter than a huge page of 2 MiB".to_owned();
    }
    match (what, mode) {
        (_, Mode::Never) => "collapsed by pagewalk while it runs (process_madvise, MADV_COLLAPSE)",
        (What::Heap(_), _) => "marked as the break moves, which goes up by whole 2 MiB",
        (What::Anonymous { .. }, _) => "marked when it is mapped (madvise, MADV_HUGEPAGE)",
        (What::File { .. }, _) => "marked when it is mapped, and collapsed by pagewalk when it is resident",
    }
    .to_owned()
}
