//! `pagewalk schema`: kinds of results, their JSON Schemas, and the registries of metrics and policies.

use crate::arguments::Schema;
use crate::exit::ExitCode;
use crate::output::print;
use pagewalk::mm::policies_page;
use pagewalk::report::kinds::{KINDS, ResultKind};
use pagewalk::report::metrics;
use pagewalk::units::names::choice;
use pagewalk::{Error, Fault};

/// A registry, shown as a page when named instead of a kind.
struct Registry {
    name: &'static str,
    about: &'static str,
    page: fn() -> String,
}

const REGISTRIES: [Registry; 2] = [
    Registry {
        name: "metrics",
        about: "every metric of a machine: unit, class, meaning",
        page: metrics::page,
    },
    Registry {
        name: "policies",
        about: "every policy of kernels with its keys: default, choices, meaning",
        page: policies_page,
    },
];

pub fn run(arguments: &Schema) -> Result<ExitCode, Error> {
    let line = |name: &str, schema: &str, about: &str| format!("{name:<18} {schema:<28} {about}\n");
    let text = match arguments.kind.as_deref() {
        None => {
            let kinds = KINDS.iter().map(|kind| line(kind.name(), kind.schema, kind.about));
            kinds.chain(REGISTRIES.iter().map(|registry| line(registry.name, "", registry.about))).collect()
        }
        Some(name) => match REGISTRIES.iter().find(|registry| registry.name == name) {
            Some(registry) => (registry.page)(),
            None => format!("{:#}\n", named(name)?.json_schema()),
        },
    };
    print(&text).map(|()| ExitCode::SUCCESS)
}

fn named(name: &str) -> Result<&'static ResultKind, Error> {
    ResultKind::named(name).ok_or_else(|| {
        let names: Vec<&str> = KINDS
            .iter()
            .map(ResultKind::name)
            .chain(REGISTRIES.iter().map(|registry| registry.name))
            .collect();
        Error::new(Fault::Usage, format!("no kind of result is named `{name}`: {}", choice(name, &names)))
    })
}
