//! Planned ranges of a running process: onto huge pages, and back.

use super::fitting::FittedPlan;
use super::outcome::{mib, plan_file};
use crate::error::{Error, Fault};
use pagewalk_live::pages::{
    AttachError, Mode, Process, RangeAction, RangeChange, RangeSnapshot, Reason, attach,
};
use pagewalk_plan::{Plan, PlanRange};
use pagewalk_report::documents::plans::{
    APPLY_SCHEMA, AppliedProcess, ApplyResult, AttachedRange, UNDO_SCHEMA, UndoResult,
};
use pagewalk_report::{Class, classes};
use std::fmt::Write;
use std::path::Path;

/// A process whose planned ranges were put on huge pages, or would be.
pub struct CollapsedProcess {
    pid: i32,
    fitting: FittedPlan,
    process: Process,
}

impl CollapsedProcess {
    /// Puts the ranges of the plan at `path` on huge pages, or only examines them.
    ///
    /// # Errors
    /// If the plan does not fit, or the host does not permit it.
    pub fn act(path: &Path, pid: i32, dry_run: bool) -> Result<CollapsedProcess, Error> {
        let fitting = FittedPlan::new(path)?;
        if fitting.plan.ranges.is_empty() && !fitting.objects.is_empty() {
            return Err(Error::new(Fault::Usage, LIBRARIES_STAY));
        }
        let process =
            attach(pid, &fitting.program, &fitting.plan, RangeAction::Collapse, dry_run).map_err(failed)?;
        Ok(CollapsedProcess { pid, fitting, process })
    }

    /// For people.
    pub fn text(&self) -> String {
        text(&self.fitting.plan, self.pid, &self.process)
    }

    /// Harmless facts that the user should know.
    pub fn notes(&self) -> Vec<String> {
        let Process { tracer, dry_run, .. } = self.process;
        let pid = self.pid;
        let traced = (tracer != 0)
            .then(|| format!("process {pid} is traced by process {tracer}, which is no hindrance"));
        let libraries = (!self.fitting.objects.is_empty()).then(|| LIBRARIES_STAY.to_owned());
        traced.into_iter().chain(libraries).chain((!dry_run).then(|| decay(self.fitting.mode))).collect()
    }

    /// As data.
    pub fn document(&self, path: &Path) -> ApplyResult {
        let CollapsedProcess { pid, fitting, process } = self;
        ApplyResult::Process(AppliedProcess {
            schema: APPLY_SCHEMA,
            plan: plan_file(path, &fitting.plan),
            process: *pid,
            tracer: process.tracer,
            mode: fitting.mode.name(),
            dry_run: process.dry_run,
            in_effect: self.is_in_effect(),
            classes: classes(&[FIGURES]),
            ranges: rows(&fitting.plan, process),
            missing: missing(process),
            notes: fitting.notes.clone(),
        })
    }

    /// The next command to run.
    pub fn next(&self) -> Option<&'static str> {
        let process = &self.process;
        if !process.dry_run {
            return self.is_in_effect().then_some("undo");
        }
        let open = |found: &RangeChange| !took(found) && hindrance(process, found).is_none();
        (process.forbidden.is_none() && process.ranges.iter().any(open)).then_some("apply")
    }

    fn is_in_effect(&self) -> bool {
        self.process.ranges.iter().all(took)
    }

    /// Checks that all ranges took effect; after a dry run, that the host would permit it.
    ///
    /// # Errors
    /// If not.
    pub fn check(self) -> Result<(), Error> {
        if self.process.dry_run {
            return permitted(self.process);
        }
        if self.is_in_effect() {
            return Ok(());
        }
        let ranges = self.fitting.plan.ranges.iter().zip(&self.process.ranges);
        let lines: Vec<String> = ranges
            .filter(|(_, found)| !took(found))
            .map(|(range, found)| format!("{range}: {}", why(&self.process, found)))
            .collect();
        Err(Error::new(Fault::NotInEffect, lines.join("\n  ")))
    }
}

/// Why libraries of a running process stay.
const LIBRARIES_STAY: &str = "the plan's libraries stay where they are: the process has their addresses in its memory. \
                              `apply PLAN.toml -- CMD` starts it with them placed";

/// A process whose planned ranges were returned to small pages, or would be.
pub struct SplitProcess {
    pid: i32,
    fitting: FittedPlan,
    process: Process,
}

/// What cannot be taken back.
const MARKS: &str = "ranges that the program was started with (apply PLAN.toml -- CMD) stay marked, as another process \
                     cannot take a mark back: new memory in them comes on huge pages, and khugepaged rebuilds them in \
                     time. Starting the program without `apply` undoes all; no setting of the host was ever changed";

impl SplitProcess {
    /// Returns the ranges of the plan at `path` to small pages, or only examines them.
    ///
    /// # Errors
    /// If the plan does not fit, or the host does not permit it.
    pub fn act(path: &Path, pid: i32, dry_run: bool) -> Result<SplitProcess, Error> {
        let fitting = FittedPlan::new(path)?;
        let process =
            attach(pid, &fitting.program, &fitting.plan, RangeAction::Split, dry_run).map_err(failed)?;
        Ok(SplitProcess { pid, fitting, process })
    }

    /// For people.
    pub fn text(&self) -> String {
        text(&self.fitting.plan, self.pid, &self.process)
    }

    /// A harmless fact that the user should know.
    pub fn note(&self) -> Option<&'static str> {
        (self.marked() > 0).then_some(MARKS)
    }

    fn remaining_bytes(&self) -> u64 {
        self.process.ranges.iter().map(|found| found.after.huge).sum()
    }

    fn marked(&self) -> u64 {
        self.process.ranges.iter().map(|found| found.after.marked).sum()
    }

    /// As data.
    pub fn document(&self, path: &Path) -> UndoResult {
        let plan = &self.fitting.plan;
        UndoResult {
            schema: UNDO_SCHEMA,
            plan: plan_file(path, plan),
            process: self.pid,
            dry_run: self.process.dry_run,
            huge_bytes: self.remaining_bytes(),
            marked_bytes: self.marked(),
            classes: classes(&[FIGURES, (Class::Measured, &["marked_bytes"])]),
            ranges: rows(plan, &self.process),
            missing: missing(&self.process),
        }
    }

    /// Checks that no range is left on huge pages; after a dry run, that the host would permit it.
    ///
    /// # Errors
    /// If not.
    pub fn check(self) -> Result<(), Error> {
        let left = self.remaining_bytes();
        match left {
            _ if self.process.dry_run => permitted(self.process),
            0 => Ok(()),
            _ => Err(Error::new(
                Fault::NotInEffect,
                format!(
                    "{} MiB are still on huge pages: the kernel splits none that a copy by fork shares",
                    left >> 20
                ),
            )),
        }
    }
}

fn took(found: &RangeChange) -> bool {
    found.after.is_huge()
}

fn text(plan: &Plan, pid: i32, process: &Process) -> String {
    format!("process {pid}\n{}", table(plan, process))
}

/// Whether this host permits what was only examined.
fn permitted(process: Process) -> Result<(), Error> {
    process.forbidden.map_or(Ok(()), |error| Err(failed(error)))
}

/// The error for a failed attempt.
fn failed(error: AttachError) -> Error {
    let fault = match &error {
        AttachError::Forbidden { .. } | AttachError::Kernel(_) => Fault::HostCannot,
        AttachError::NoProcess(_) => Fault::Usage,
        AttachError::OtherProgram { .. } => Fault::NotInEffect,
        _ => Fault::Failed,
    };
    let enable = error.enable();
    Error::new(fault, error).or(enable)
}

/// What may undo the change by itself.
fn decay(mode: Mode) -> String {
    let keeps = match mode {
        Mode::Always => "khugepaged rebuilds what is lost, in time",
        Mode::Madvise => "nothing rebuilds what is lost, as the ranges are not marked",
        Mode::Never => "nothing rebuilds what is lost, as huge pages are switched off",
    };
    format!(
        "these huge pages last until the program gives parts of them back, they are swapped out, or a copy that fork \
         made writes to them; memory that comes later is not covered; {keeps}. `apply PLAN.toml -- CMD` lasts"
    )
}

/// What this host does not permit, as data.
fn missing(process: &Process) -> Vec<String> {
    let told = |error: &AttachError| format!("{error}; to enable: {}", error.enable());
    process.forbidden.iter().map(told).collect()
}

/// Why a range is not on huge pages though it should be.
fn why(process: &Process, found: &RangeChange) -> String {
    hindrance(process, found).map_or_else(
        || {
            let reason = found.error.as_ref().map_or_else(String::new, |error| format!(": {error}"));
            format!("the kernel did not collapse all of it{reason}")
        },
        |reason| reason.to_string(),
    )
}

/// What keeps a range from huge pages in any case.
fn hindrance(process: &Process, found: &RangeChange) -> Option<Reason> {
    let RangeSnapshot { whole, touched, refused, mapped, .. } = found.after;
    if found.spans.is_empty() {
        Some(unrecognised())
    } else if mapped == 0 || whole == 0 {
        Some(Reason::NotAligned)
    } else if touched == 0 {
        Some(Reason::NeverTouched)
    } else if refused > 0 {
        Some(Reason::Refused)
    } else if process.disabled {
        Some(Reason::Disabled)
    } else {
        None
    }
}

fn unrecognised() -> Reason {
    Reason::NeverAppeared(
        "nothing is recognised as it. From outside, anonymous memory is known by its length alone, and neighbours \
         that the kernel has merged have another"
            .to_owned(),
    )
}

/// What would be done to a range, or why nothing would.
fn would(process: &Process, found: &RangeChange) -> String {
    let RangeSnapshot { touched, small, huge, .. } = found.before;
    match process.act {
        _ if found.spans.is_empty() => unrecognised().to_string(),
        RangeAction::Split if huge == 0 => "nothing to split: none of it is on huge pages".to_owned(),
        RangeAction::Split => format!("would be split: {:.1} MiB", mib(huge)),
        _ if found.before.is_pool() => Reason::Pool.to_string(),
        RangeAction::Collapse if touched > 0 && small == 0 => {
            "nothing to collapse: all of it is on huge pages".to_owned()
        }
        RangeAction::Collapse => hindrance(process, found).map_or_else(
            || format!("would be collapsed: {:.1} MiB", mib(small)),
            |reason| reason.to_string(),
        ),
    }
}

/// The ranges before and after, or now with what would be done.
fn table(plan: &Plan, process: &Process) -> String {
    let names: Vec<String> = plan.ranges.iter().map(ToString::to_string).collect();
    let width = names.iter().map(String::len).max().unwrap_or(0).max(5);
    let now = if process.dry_run { "" } else { "        now" };
    let mut text = format!("  {:width$}  {:>9}  {:>9}{now}  (MiB)\n", "range", "touched", "huge");
    for (name, found) in names.iter().zip(&process.ranges) {
        let (touched, before) = (mib(found.after.touched), mib(found.before.huge));
        let came = match process.dry_run {
            true => would(process, found),
            false if found.after.is_pool() => format!("{:>9.1}  {}", mib(found.after.huge), Reason::Pool),
            false => format!("{:>9.1}", mib(found.after.huge)),
        };
        let _ = writeln!(text, "  {name:width$}  {touched:>9.1}  {before:>9.1}  {came}");
    }
    text
}

/// The classes of ranges' figures.
const FIGURES: (Class, &[&str]) = (
    Class::Measured,
    &["mapped_bytes", "whole_block_bytes", "touched_block_bytes", "huge_bytes_before", "huge_bytes"],
);

/// The same as data.
fn rows(plan: &Plan, process: &Process) -> Vec<AttachedRange> {
    let reason = |found: &RangeChange| match process.act {
        RangeAction::Split => None,
        RangeAction::Collapse if found.after.is_pool() => Some(Reason::Pool.to_string()),
        RangeAction::Collapse if found.after.is_huge() => None,
        RangeAction::Collapse if process.dry_run => {
            hindrance(process, found).map(|reason| reason.to_string())
        }
        RangeAction::Collapse => Some(why(process, found)),
    };
    let row = |(range, found): (&PlanRange, &RangeChange)| {
        let start = found.spans.first().map(|(start, _)| format!("{start:#x}"));
        AttachedRange {
            range: range.what.to_string(),
            start,
            mapped_bytes: found.after.mapped,
            whole_block_bytes: found.after.whole,
            touched_block_bytes: found.after.touched,
            huge_bytes_before: found.before.huge,
            huge_bytes: found.after.huge,
            error: found.error.as_ref().map(ToString::to_string),
            in_effect: found.after.is_huge(),
            reason: reason(found),
            would: process.dry_run.then(|| would(process, found)),
        }
    };
    plan.ranges.iter().zip(&process.ranges).map(row).collect()
}
