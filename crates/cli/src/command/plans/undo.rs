//! `pagewalk undo`: the planned ranges of a running process back to small pages.

use super::attach::{FIGURES, ended_dry, failed, missing, rows, tell};
use super::fitting::Fitting;
use super::outcome::plan_file;
use crate::arguments::Undo;
use crate::error::{CliError, Code};
use crate::output::{Output, say, write_json};
use pagewalk_live::pages::{Act, attach};
use pagewalk_report::documents::plans::{UNDO_SCHEMA, UndoResult};
use pagewalk_report::{Class, classes};
use std::process::ExitCode;

/// What cannot be taken back.
const MARKS: &str = "ranges that the program was started with (apply PLAN.toml -- CMD) stay marked, as another process \
                     cannot take a mark back: new memory in them comes on huge pages, and khugepaged rebuilds them in \
                     time. Starting the program without `apply` undoes all; no setting of the host was ever changed";

pub fn run(arguments: Undo) -> Result<ExitCode, CliError> {
    let apart = |path| Output::open_apart(path, [&*arguments.plan]);
    let file = arguments.data.output.as_deref().map(apart).transpose()?;
    let Fitting { plan, program, .. } = Fitting::new(&arguments.plan)?;
    let process = attach(arguments.pid, &program, &plan, Act::Split, arguments.dry_run).map_err(failed)?;
    let left: u64 = process.ranges.iter().map(|found| found.after.huge).sum();
    let marked: u64 = process.ranges.iter().map(|found| found.after.marked).sum();
    tell(&arguments.data, &plan, arguments.pid, &process)?;
    if marked > 0 && !arguments.data.quiet {
        say(MARKS);
    }
    let document = UndoResult {
        schema: UNDO_SCHEMA,
        plan: plan_file(&arguments.plan, &plan),
        process: arguments.pid,
        dry_run: arguments.dry_run,
        huge_bytes: left,
        marked_bytes: marked,
        classes: classes(&[FIGURES, (Class::Measured, &["marked_bytes"])]),
        ranges: rows(&plan, &process),
        missing: missing(&process),
    };
    write_json(&arguments.data, &document, file)?;
    if process.dry_run {
        return ended_dry(process);
    }
    if left == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    Err(CliError::new(
        Code::NotInEffect,
        format!(
            "{} MiB are still on huge pages: the kernel splits none that a copy by fork shares",
            left >> 20
        ),
    ))
}
