//! `pagewalk apply --dry-run`: what would be done, and whether this host lets it.

use super::attach;
use super::fitting::Fitting;
use super::outcome::plan_file;
use crate::arguments::Apply;
use crate::error::{CliError, Code};
use crate::output::{Output, print, say, say_next, write_json};
use crate::planned::{OR_DEFAULT, check_command};
use pagewalk_live::layout::check_host;
use pagewalk_live::pages::plan::What;
use pagewalk_live::pages::{self, Circumstances, HUGE_BYTES, Mode};
use pagewalk_report::documents::plans::{APPLY_SCHEMA, AppliedDry, ApplyResult, Step};
use pagewalk_report::{Class, classes};
use std::process::ExitCode;

pub fn run(arguments: &Apply, file: Option<Output>) -> Result<ExitCode, CliError> {
    if let Some(pid) = arguments.pid {
        return attach::run(arguments, pid, file);
    }
    let fitting = Fitting::new(&arguments.plan)?;
    if let Some(command) = arguments.command.first() {
        check_command(command, OR_DEFAULT)?;
    }
    let around = Circumstances::of(std::process::id() as i32);
    let mut missing = Vec::new();
    if let Err(error) = check_host() {
        missing.push(format!("{error}; to enable: {}", error.enable()));
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
    let ranges: Vec<(String, String)> = fitting
        .plan
        .ranges
        .iter()
        .map(|range| (range.what.to_string(), step(&range.what, fitting.mode)))
        .collect();
    let document = ApplyResult::Dry(AppliedDry {
        schema: APPLY_SCHEMA,
        dry_run: true,
        plan: plan_file(&arguments.plan, &fitting.plan),
        mode: fitting.mode.name(),
        free_blocks: around.free_blocks,
        classes: classes(&[(Class::Measured, &["free_blocks"])]),
        ranges: ranges.iter().cloned().map(|(range, would)| Step { range, would }).collect(),
        missing: missing.clone(),
        notes: fitting.notes.clone(),
    });
    if !arguments.data.json {
        let text: String = ranges.iter().map(|(range, step)| format!("{range}: {step}\n")).collect();
        print(&text)?;
    }
    if !arguments.data.quiet && !arguments.data.json {
        fitting.notes.iter().for_each(say);
    }
    write_json(&arguments.data, &document, file)?;
    if !missing.is_empty() {
        return Err(CliError::new(Code::HostCannot, missing.join("\n  ")));
    }
    say_next(arguments.data.quiet, format!("pagewalk apply {} -- CMD", arguments.plan.display()));
    Ok(ExitCode::SUCCESS)
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
