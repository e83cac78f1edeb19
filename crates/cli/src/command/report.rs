//! `pagewalk report`: the HTML report from a saved result, of a run, a study, a memory, a TLB's sets or a probe.

use crate::arguments::Report;
use crate::error::{CliError, Code};
use crate::output::{Output, say};
use pagewalk_report::conflicts::schema::CONFLICTS_SCHEMA;
use pagewalk_report::contiguity::schema::CONTIGUITY_SCHEMA;
use pagewalk_report::probe::schema::PROBE_SCHEMA;
use pagewalk_report::sweep::schema::SWEEP_SCHEMA;
use pagewalk_report::{ReadError, conflicts, contiguity, from_json, probe, render_html, sweep};
use std::process::ExitCode;

pub fn run(arguments: Report) -> Result<ExitCode, CliError> {
    let path = arguments.result.display();
    let text = std::fs::read_to_string(&arguments.result)
        .map_err(|e| CliError::new(Code::BadInput, format!("cannot read {path}: {e}")))?;
    let page = match from_json(&text) {
        Ok(result) => Ok(render_html(&result)),
        Err(ReadError::OtherSchema { found, .. }) if found == SWEEP_SCHEMA => {
            sweep::from_json(&text).map(|result| sweep::render_html(&result))
        }
        Err(ReadError::OtherSchema { found, .. }) if found == CONTIGUITY_SCHEMA => {
            contiguity::from_json(&text).map(|result| contiguity::render_html(&result))
        }
        Err(ReadError::OtherSchema { found, .. }) if found == CONFLICTS_SCHEMA => {
            conflicts::from_json(&text).map(|result| conflicts::render_html(&result))
        }
        Err(ReadError::OtherSchema { found, .. }) if found == PROBE_SCHEMA => {
            probe::from_json(&text).map(|result| probe::render_html(&result))
        }
        Err(error) => Err(error),
    };
    let page = page.map_err(|e| {
        CliError::new(Code::BadInput, format!("{path}: {e}"))
            .or("save a result with `pagewalk profile -o result.json`")
    })?;
    let written = Output::open_apart(&arguments.output, [&*arguments.result])?.write(page.as_bytes())?;
    say(format!("report written to {}", written.display()));
    Ok(ExitCode::SUCCESS)
}
