//! `pagewalk layout run --dry-run`: what would be placed where, and whether files and host let it.

use super::super::fitting::Fitting;
use super::result::plan_file;
use crate::arguments::LayoutRun;
use crate::error::{CliError, Code};
use crate::output::{Output, print, write_json};
use crate::planned::OR_DEFAULT;
use pagewalk_layout::Plan;
use pagewalk_layout::files::Object;
use pagewalk_live::layout::check_host;
use pagewalk_report::documents::layout_run::{LAYOUT_RUN_SCHEMA, LaidDry, LayoutRunResult, PlannedLibrary};
use pagewalk_report::printable;
use std::ffi::OsString;
use std::process::ExitCode;

pub fn run(arguments: &LayoutRun, file: Option<Output>) -> Result<ExitCode, CliError> {
    let planned = || -> Result<OsString, CliError> {
        let plan = Plan::read(&arguments.plan).map_err(|error| CliError::new(Code::BadInput, error))?;
        Ok(plan.program.path.into())
    };
    let program = arguments.command.first().cloned().map_or_else(planned, Ok)?;
    let Fitting { plan, mut objects } = Fitting::new(&arguments.plan, &program, OR_DEFAULT)?;
    let missing = check_host().err().map(|error| format!("{error}; to enable: {}", error.enable()));
    objects.sort_by_key(|object| object.base);
    let place = |object: &Object| {
        let (file, base) = (object.file.clone(), format!("{:#x}", object.base));
        PlannedLibrary { file, base, bytes: object.bytes }
    };
    let document = LayoutRunResult::Dry(LaidDry {
        schema: LAYOUT_RUN_SCHEMA,
        dry_run: true,
        plan: plan_file(&arguments.plan, &plan, objects.len()),
        command: arguments.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        would_place: objects.iter().map(place).collect(),
        missing: missing.clone(),
    });
    if !arguments.data.json {
        let row = |object: &Object| {
            let end = object.base + object.bytes;
            format!("{:#x} to {end:#x}  {}\n", object.base, printable(&object.file))
        };
        let mut text: String = objects.iter().map(row).collect();
        text += &format!(
            "{} of the plan's libraries are here as planned; nothing was run (--dry-run)\n",
            objects.len()
        );
        print(&text)?;
    }
    write_json(&arguments.data, &document, file)?;
    match missing {
        None => Ok(ExitCode::SUCCESS),
        Some(missing) => Err(CliError::new(Code::HostCannot, missing)),
    }
}
