//! `pagewalk layout run --dry-run`: what would be placed where, and whether files and host let it.

use super::super::fitting::Fitting;
use crate::arguments::LayoutRun;
use crate::error::{CliError, Code};
use crate::output::{Output, print, write_json};
use crate::planned::OR_DEFAULT;
use pagewalk_layout::Plan;
use pagewalk_layout::files::Object;
use pagewalk_live::layout::check_host;
use pagewalk_report::printable;
use serde_json::json;
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
    let rows: Vec<_> = objects
        .iter()
        .map(|object| {
            json!({
                "file": object.file,
                "base": format!("{:#x}", object.base),
                "bytes": object.bytes,
            })
        })
        .collect();
    let document = json!({
        "schema": "pagewalk.layout-run/1",
        "dry_run": true,
        "plan": {
            "file": arguments.plan.to_string_lossy(),
            "planner": plan.planner,
            "machines": plan.machines,
            "program": plan.program.path,
            "arena": format!("{:#x}", plan.arena),
            "libraries": objects.len(),
        },
        "command": arguments.command.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>(),
        "would_place": rows,
        "missing": missing,
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
