//! `pagewalk schema`: kinds of results, and the JSON Schema of each.

use crate::arguments::Schema;
use crate::output::print;
use pagewalk::report::kinds::{KINDS, Kind};
use pagewalk::units::names::choice;
use pagewalk::{Error, Fault};
use std::process::ExitCode;

pub fn run(arguments: &Schema) -> Result<ExitCode, Error> {
    let text = match &arguments.kind {
        None => KINDS
            .iter()
            .map(|kind| format!("{:<18} {:<28} {}\n", kind.name(), kind.schema, kind.about))
            .collect(),
        Some(name) => format!("{:#}\n", named(name)?.json_schema()),
    };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn named(name: &str) -> Result<&'static Kind, Error> {
    Kind::named(name).ok_or_else(|| {
        let names: Vec<&str> = KINDS.iter().map(Kind::name).collect();
        Error::new(Fault::Usage, format!("no kind of result is named `{name}`: {}", choice(name, &names)))
    })
}
