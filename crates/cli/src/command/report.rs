//! `pagewalk report`: HTML from saved results: of one or more runs, a study, a memory, a TLB's sets or a probe; or the
//! profile of a run for another tool's viewer.

use crate::arguments::Report;
use crate::exit::ExitCode;
use crate::output::{print, say};
use pagewalk::output::Output;
use pagewalk::report::conflicts::schema::CONFLICTS_SCHEMA;
use pagewalk::report::contiguity::schema::CONTIGUITY_SCHEMA;
use pagewalk::report::probe::schema::PROBE_SCHEMA;
use pagewalk::report::schema::{RESULT_SCHEMA, RESULT_SCHEMA_1, RunResult};
use pagewalk::report::sweep::schema::SWEEP_SCHEMA;
use pagewalk::report::viewers::{Viewer, viewer};
use pagewalk::report::{
    ReadError, ReportedRun, conflicts, contiguity, from_json, probe, render_html, render_runs_html,
    schema_of, sweep,
};
use pagewalk::{Error, Fault};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// A schema, and the function that renders its results.
type Kind = (&'static str, fn(&str) -> Result<String, ReadError>);

const KINDS: [Kind; 6] = [
    (RESULT_SCHEMA, of_run),
    (RESULT_SCHEMA_1, of_run),
    (SWEEP_SCHEMA, |text| sweep::from_json(text).map(|result| sweep::render_html(&result))),
    (CONTIGUITY_SCHEMA, |text| contiguity::from_json(text).map(|result| contiguity::render_html(&result))),
    (CONFLICTS_SCHEMA, |text| conflicts::from_json(text).map(|result| conflicts::render_html(&result))),
    (PROBE_SCHEMA, |text| probe::from_json(text).map(|result| probe::render_html(&result))),
];

fn of_run(text: &str) -> Result<String, ReadError> {
    from_json(text).map(|result| render_html(&result))
}

pub fn run(arguments: Report) -> Result<ExitCode, Error> {
    let files = arguments
        .results
        .iter()
        .map(|path| SavedResult::read(path))
        .collect::<Result<Vec<SavedResult>, Error>>()?;
    if let Some(viewer) = viewer(&arguments.format) {
        return profile(viewer, &files, &arguments);
    }
    let page = match files.as_slice() {
        [file] => file.page()?,
        files => side_by_side(files)?,
    };
    write(&page, "report", &arguments)
}

/// Writes to the output, or to standard output, which is `-`.
fn write(text: &str, what: &str, arguments: &Report) -> Result<ExitCode, Error> {
    if arguments.output == Path::new("-") {
        return print(text).map(|()| ExitCode::SUCCESS);
    }
    let inputs = arguments.results.iter().map(PathBuf::as_path);
    let written = Output::open_apart(&arguments.output, inputs)?.write(text.as_bytes())?;
    say(format!("{what} written to {}", written.display()));
    Ok(ExitCode::SUCCESS)
}

/// Writes a run's result for another tool's viewer.
fn profile(viewer: &Viewer, files: &[SavedResult], arguments: &Report) -> Result<ExitCode, Error> {
    let [file] = files else {
        let message = format!("--format {} is of one result, and here are {}", viewer.name, files.len());
        return Err(Error::new(Fault::Usage, message).or("give one result of `profile` or `simulate`"));
    };
    write(&(viewer.render)(&file.result()?), &format!("{} profile", viewer.name), arguments)
}

/// A saved result of any kind.
struct SavedResult {
    name: String,
    text: String,
    schema: String,
}

impl SavedResult {
    fn read(path: &Path) -> Result<SavedResult, Error> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|e| {
            let error = Error::new(Fault::BadInput, format!("cannot read {name}: {e}"));
            match e.kind() {
                ErrorKind::InvalidData => {
                    error.or(format!("of a trace, `pagewalk simulate -o report.html {name}` makes a report"))
                }
                _ => error,
            }
        })?;
        match schema_of(&text) {
            Ok(schema) => Ok(SavedResult { name, text, schema }),
            Err(error) => Err(bad(&name, error)),
        }
    }

    fn page(&self) -> Result<String, Error> {
        let kind = KINDS.iter().find(|(schema, _)| *schema == self.schema);
        let (_, page) = kind.ok_or_else(|| {
            let read = KINDS.map(|(schema, _)| schema).join(", ");
            bad(&self.name, format!("the result has schema \"{}\"; `report` reads {read}", self.schema))
        })?;
        page(&self.text).map_err(|error| bad(&self.name, error))
    }

    fn result(&self) -> Result<RunResult, Error> {
        from_json(&self.text).map_err(|error| bad(&self.name, error))
    }
}

fn bad(name: &str, why: impl std::fmt::Display) -> Error {
    Error::new(Fault::BadInput, format!("{name}: {why}"))
        .or("save a result with `pagewalk profile -o result.json`")
}

/// One page for several runs.
fn side_by_side(files: &[SavedResult]) -> Result<String, Error> {
    if !files.iter().all(|file| [RESULT_SCHEMA, RESULT_SCHEMA_1].contains(&&*file.schema)) {
        let all = files.iter().map(|file| format!("{} is {}", file.name, file.schema));
        let all: Vec<String> = all.collect();
        let message = format!("these results do not go on one page: {}", all.join(", "));
        return Err(Error::new(Fault::Usage, message)
            .or(format!("give several results of runs ({RESULT_SCHEMA}), or one result of another kind")));
    }
    let results = files.iter().map(SavedResult::result).collect::<Result<Vec<RunResult>, Error>>()?;
    let runs = files.iter().zip(&results).map(|(file, result)| ReportedRun { file: &file.name, result });
    let runs: Vec<ReportedRun> = runs.collect();
    Ok(render_runs_html(runs[0], &runs[1..]))
}
