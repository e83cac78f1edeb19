//! `pagewalk apply --pid` and `pagewalk undo --pid`: planned ranges of a process that runs already.

use super::fitting::Fitting;
use crate::arguments::Apply;
use crate::error::{CliError, Code};
use crate::output::{Output, say, write_json, write_to_stderr};
use pagewalk_live::pages::plan::Plan;
use pagewalk_live::pages::{Act, AttachError, Attached, Mode, Process, Reason, Seen, attach};
use serde_json::{Value, json};
use std::fmt::Write;
use std::process::ExitCode;

pub fn run(arguments: &Apply, pid: i32, file: Option<Output>) -> Result<ExitCode, CliError> {
    let fitting = Fitting::new(&arguments.plan)?;
    let act = if arguments.dry_run { Act::Nothing } else { Act::Collapse };
    let process = attach(pid, &fitting.program, &fitting.plan, act).map_err(failed)?;
    if !arguments.data.quiet {
        write_to_stderr(&table(&fitting.plan, pid, &process));
        if process.tracer != 0 {
            say(format!("process {pid} is traced by process {}, which is no hindrance", process.tracer));
        }
        if act == Act::Collapse {
            say(decay(fitting.mode));
        }
    }
    let took = |found: &Attached| found.after.is_huge();
    let document = json!({
        "schema": "pagewalk.apply/1",
        "plan": {
            "file": arguments.plan.to_string_lossy(),
            "program": fitting.plan.program.path,
            "ranges": fitting.plan.ranges.len(),
        },
        "process": pid,
        "tracer": process.tracer,
        "mode": fitting.mode.name(),
        "dry_run": arguments.dry_run,
        "in_effect": process.ranges.iter().all(took),
        "ranges": rows(&fitting.plan, &process, act),
        "notes": fitting.notes,
    });
    write_json(&arguments.data, &document, file)?;
    if act == Act::Nothing || process.ranges.iter().all(took) {
        return Ok(ExitCode::SUCCESS);
    }
    let lines: Vec<String> = fitting
        .plan
        .ranges
        .iter()
        .zip(&process.ranges)
        .filter(|(_, found)| !took(found))
        .map(|(range, found)| format!("{}: {}", range.what, why(found)))
        .collect();
    Err(CliError::new(Code::NotInEffect, lines.join("\n  ")))
}

/// What a failed attempt is told as.
pub fn failed(error: AttachError) -> CliError {
    let code = match &error {
        AttachError::Forbidden { .. } | AttachError::Kernel { .. } => Code::HostCannot,
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

/// Why a range is not on huge pages though that was asked for.
fn why(found: &Attached) -> String {
    hindrance(found).unwrap_or_else(|| {
        let reason = found.error.as_ref().map_or_else(String::new, |error| format!(": {error}"));
        format!("the kernel did not collapse all of it{reason}")
    })
}

/// What keeps a range from huge pages whether it is tried or not.
fn hindrance(found: &Attached) -> Option<String> {
    let Seen { whole, touched, refused, mapped, .. } = found.after;
    let reason = if found.spans.is_empty() {
        Reason::NeverAppeared(
            "nothing is recognised as it. From outside, anonymous memory is known by its length alone, and neighbours \
             that the kernel has merged have another"
                .to_owned(),
        )
    } else if mapped == 0 || whole == 0 {
        Reason::NotAligned
    } else if touched == 0 {
        Reason::NeverTouched
    } else if refused > 0 {
        Reason::Refused
    } else {
        return None;
    };
    Some(reason.to_string())
}

/// Ranges before and after, for people.
pub fn table(plan: &Plan, pid: i32, process: &Process) -> String {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let names: Vec<String> = plan.ranges.iter().map(|range| range.what.to_string()).collect();
    let width = names.iter().map(String::len).max().unwrap_or(0).max(5);
    let mut text = format!(
        "process {pid}\n  {:width$}  {:>9}  {:>9}  {:>9}  (MiB)\n",
        "range", "touched", "huge", "now"
    );
    for (name, found) in names.iter().zip(&process.ranges) {
        let (touched, before, after) =
            (mib(found.after.touched), mib(found.before.huge), mib(found.after.huge));
        let _ = writeln!(text, "  {name:width$}  {touched:>9.1}  {before:>9.1}  {after:>9.1}");
    }
    text
}

/// Ranges before and after, as data.
pub fn rows(plan: &Plan, process: &Process, act: Act) -> Vec<Value> {
    let reason = |found: &Attached| match act {
        Act::Collapse => Some(why(found)),
        Act::Nothing => hindrance(found),
        Act::Split => None,
    };
    let row = |(range, found): (&pagewalk_live::pages::plan::Range, &Attached)| {
        let start = found.spans.first().map(|(start, _)| format!("{start:#x}"));
        json!({
            "range": range.what.to_string(),
            "start": start,
            "mapped_bytes": found.after.mapped,
            "whole_block_bytes": found.after.whole,
            "touched_block_bytes": found.after.touched,
            "huge_bytes_before": found.before.huge,
            "huge_bytes": found.after.huge,
            "error": found.error.as_ref().map(ToString::to_string),
            "in_effect": found.after.is_huge(),
            "reason": if found.after.is_huge() { None } else { reason(found) },
        })
    };
    plan.ranges.iter().zip(&process.ranges).map(row).collect()
}
