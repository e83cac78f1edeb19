//! `pagewalk apply --pid` and `pagewalk undo --pid`: planned ranges of a process that runs already.

use super::fitting::Fitting;
use super::outcome::plan_file;
use crate::arguments::{Apply, Data};
use crate::error::{CliError, Code};
use crate::output::{Output, print, say, say_next, write_json, write_to_stderr};
use pagewalk_live::pages::plan::{Plan, Range};
use pagewalk_live::pages::{Act, AttachError, Attached, Mode, Process, Reason, Seen, attach};
use pagewalk_report::documents::plans::{APPLY_SCHEMA, AppliedProcess, ApplyResult, AttachedRange};
use pagewalk_report::{Class, classes};
use std::fmt::Write;
use std::process::ExitCode;

pub fn run(arguments: &Apply, pid: i32, file: Option<Output>) -> Result<ExitCode, CliError> {
    let fitting = Fitting::new(&arguments.plan)?;
    let process =
        attach(pid, &fitting.program, &fitting.plan, Act::Collapse, arguments.dry_run).map_err(failed)?;
    tell(&arguments.data, &fitting.plan, pid, &process)?;
    if !arguments.data.quiet {
        if process.tracer != 0 {
            say(format!("process {pid} is traced by process {}, which is no hindrance", process.tracer));
        }
        if !process.dry_run {
            say(decay(fitting.mode));
        }
    }
    let took = |found: &Attached| found.after.is_huge();
    let document = ApplyResult::Process(AppliedProcess {
        schema: APPLY_SCHEMA,
        plan: plan_file(&arguments.plan, &fitting.plan),
        process: pid,
        tracer: process.tracer,
        mode: fitting.mode.name(),
        dry_run: arguments.dry_run,
        in_effect: process.ranges.iter().all(took),
        classes: classes(&[FIGURES]),
        ranges: rows(&fitting.plan, &process),
        missing: missing(&process),
        notes: fitting.notes.clone(),
    });
    write_json(&arguments.data, &document, file)?;
    let next = |command: &str| {
        let plan = arguments.plan.display();
        say_next(arguments.data.quiet, format!("pagewalk {command} {plan} --pid {pid}"));
    };
    if process.dry_run {
        let open = |found: &Attached| !took(found) && hindrance(&process, found).is_none();
        if process.forbidden.is_none() && process.ranges.iter().any(open) {
            next("apply");
        }
        return ended_dry(process);
    }
    if process.ranges.iter().all(took) {
        next("undo");
        return Ok(ExitCode::SUCCESS);
    }
    let lines: Vec<String> = fitting
        .plan
        .ranges
        .iter()
        .zip(&process.ranges)
        .filter(|(_, found)| !took(found))
        .map(|(range, found)| format!("{}: {}", range.what, why(&process, found)))
        .collect();
    Err(CliError::new(Code::NotInEffect, lines.join("\n  ")))
}

/// What a failed attempt is told as.
pub fn failed(error: AttachError) -> CliError {
    let code = match &error {
        AttachError::Forbidden { .. } | AttachError::Kernel(_) => Code::HostCannot,
        AttachError::NoProcess(_) => Code::Usage,
        AttachError::OtherProgram { .. } => Code::NotInEffect,
        _ => Code::Failed,
    };
    let enable = error.enable();
    CliError::new(code, error).or(enable)
}

/// What may undo it by itself.
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
pub fn missing(process: &Process) -> Vec<String> {
    let told = |error: &AttachError| format!("{error}; to enable: {}", error.enable());
    process.forbidden.iter().map(told).collect()
}

/// The end of a dry run: whether this host permits the real one.
pub fn ended_dry(process: Process) -> Result<ExitCode, CliError> {
    process.forbidden.map_or(Ok(ExitCode::SUCCESS), |error| Err(failed(error)))
}

/// Why a range is not on huge pages though that was asked for.
fn why(process: &Process, found: &Attached) -> String {
    hindrance(process, found).map_or_else(
        || {
            let reason = found.error.as_ref().map_or_else(String::new, |error| format!(": {error}"));
            format!("the kernel did not collapse all of it{reason}")
        },
        |reason| reason.to_string(),
    )
}

/// What keeps a range from huge pages whether it is tried or not.
fn hindrance(process: &Process, found: &Attached) -> Option<Reason> {
    let Seen { whole, touched, refused, mapped, .. } = found.after;
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

/// What would be done to a range, or why nothing would be.
fn would(process: &Process, found: &Attached) -> String {
    let Seen { touched, small, huge, .. } = found.before;
    match process.act {
        _ if found.spans.is_empty() => unrecognised().to_string(),
        Act::Split if huge == 0 => "nothing to split: none of it is on huge pages".to_owned(),
        Act::Split => format!("would be split: {:.1} MiB", mib(huge)),
        _ if found.before.is_pool() => Reason::Pool.to_string(),
        Act::Collapse if touched > 0 && small == 0 => {
            "nothing to collapse: all of it is on huge pages".to_owned()
        }
        Act::Collapse => hindrance(process, found).map_or_else(
            || format!("would be collapsed: {:.1} MiB", mib(small)),
            |reason| reason.to_string(),
        ),
    }
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Says what came of it. A dry run's text is what was asked for, so it is printed.
pub fn tell(data: &Data, plan: &Plan, pid: i32, process: &Process) -> Result<(), CliError> {
    let text = format!("process {pid}\n{}", table(plan, process));
    match process.dry_run {
        true if !data.json => return print(&text),
        false if !data.quiet => write_to_stderr(&text),
        _ => {}
    }
    Ok(())
}

/// Ranges as they are and what would be done to them, or before and after.
fn table(plan: &Plan, process: &Process) -> String {
    let names: Vec<String> = plan.ranges.iter().map(|range| range.what.to_string()).collect();
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

/// What figures of ranges are.
pub const FIGURES: (Class, &[&str]) = (
    Class::Measured,
    &["mapped_bytes", "whole_block_bytes", "touched_block_bytes", "huge_bytes_before", "huge_bytes"],
);

/// The same as data.
pub fn rows(plan: &Plan, process: &Process) -> Vec<AttachedRange> {
    let reason = |found: &Attached| match process.act {
        Act::Split => None,
        Act::Collapse if found.after.is_pool() => Some(Reason::Pool.to_string()),
        Act::Collapse if found.after.is_huge() => None,
        Act::Collapse if process.dry_run => hindrance(process, found).map(|reason| reason.to_string()),
        Act::Collapse => Some(why(process, found)),
    };
    let row = |(range, found): (&Range, &Attached)| {
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
