//! `pagewalk report`: the HTML report from a saved result.

use crate::arguments::Report;
use crate::error::{CliError, Code};
use crate::output::{Output, say};
use pagewalk_report::{from_json, render_html};
use std::process::ExitCode;

pub fn run(arguments: Report) -> Result<ExitCode, CliError> {
    let path = arguments.result.display();
    let text = std::fs::read_to_string(&arguments.result)
        .map_err(|e| CliError::new(Code::BadInput, format!("cannot read {path}: {e}")))?;
    let result = from_json(&text).map_err(|e| {
        CliError::new(Code::BadInput, format!("{path}: {e}"))
            .or("save a result with `pagewalk profile -o result.json`")
    })?;
    let written = Output::open(&arguments.output)?.write(render_html(&result).as_bytes())?;
    say(format!("report written to {}", written.display()));
    Ok(ExitCode::SUCCESS)
}
