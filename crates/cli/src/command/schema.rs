//! `pagewalk schema`: kinds of results, the JSON Schema of each, and the metrics of machines.

use crate::arguments::Schema;
use crate::output::print;
use pagewalk::report::kinds::{KINDS, Kind};
use pagewalk::report::metrics;
use pagewalk::units::names::choice;
use pagewalk::{Error, Fault};
use std::process::ExitCode;

/// What is asked for in the place of a kind: the registry of metrics, as a page.
const METRICS: &str = "metrics";

pub fn run(arguments: &Schema) -> Result<ExitCode, Error> {
    let line = |name: &str, schema: &str, about: &str| format!("{name:<18} {schema:<28} {about}\n");
    let text = match arguments.kind.as_deref() {
        None => {
            let kinds = KINDS.iter().map(|kind| line(kind.name(), kind.schema, kind.about));
            kinds.chain([line(METRICS, "", "every metric of a machine: unit, class, meaning")]).collect()
        }
        Some(METRICS) => metrics::page(),
        Some(name) => format!("{:#}\n", named(name)?.json_schema()),
    };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn named(name: &str) -> Result<&'static Kind, Error> {
    Kind::named(name).ok_or_else(|| {
        let names: Vec<&str> = KINDS.iter().map(Kind::name).chain([METRICS]).collect();
        Error::new(Fault::Usage, format!("no kind of result is named `{name}`: {}", choice(name, &names)))
    })
}
