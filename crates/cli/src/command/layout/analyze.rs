//! `pagewalk layout analyze`: which pages compete for the sets of a TLB.

use crate::arguments::LayoutAnalyze;
use crate::exit;
use crate::exit::ExitCode;
use crate::output::{Files, print, say, say_next, text_options};
use crate::terminal::Terminal;
use pagewalk::conflicts::ConflictOptions;
use pagewalk::placement::LayoutFile;
use pagewalk::report::conflicts::{ConflictsResult, places_could_help, render_html, render_text, to_json};
use pagewalk::shell::quoted;
use pagewalk::{Error, Fault, machines};
use std::io::{self, IsTerminal};
use std::path::Path;

pub fn run(arguments: LayoutAnalyze) -> Result<ExitCode, Error> {
    let terminal = Terminal { quiet: arguments.style.quiet };
    let watching = ConflictOptions {
        machine: machines::load_and_say(&arguments.machine, &terminal)?,
        tlb: arguments.tlb.clone(),
        set: arguments.set,
        least: arguments.least,
        window: arguments.region.clone().into(),
    };
    watching.check()?;
    let plan = arguments.layout.as_deref().map(LayoutFile::read).transpose()?;
    let outputs = open(&arguments)?;
    let mut found = watching.trace(&arguments.trace, plan.as_ref(), &terminal)?;
    let printed = publish(&found.result, &arguments);
    let written = outputs.write(arguments.style.quiet, |form| match form {
        Form::Html => ("report", render_html(&found.result)),
        Form::Json => ("result", to_json(&found.result)),
        Form::Dot => ("graph", found.dot()),
        Form::Callgrind => ("call graph", found.callgrind()),
    });
    if !arguments.style.quiet {
        found.unnamed().for_each(say);
    }
    printed.and(written)?;
    // A result analysed under a plan already has one.
    if arguments.layout.is_none() && found.result.arrays.iter().any(places_could_help) {
        let (machine, trace) = (&arguments.machine, quoted(&arguments.trace));
        say_next(arguments.style.quiet, format!("pagewalk layout plan -m {machine} -o plan.toml {trace}"));
    }
    if !found.ending.cut {
        return Ok(ExitCode::SUCCESS);
    }
    // What could be read is printed all the same.
    found.ending.tell_losses(&arguments.trace, &terminal);
    Ok(exit::by(Fault::BadInput))
}

fn publish(result: &ConflictsResult, arguments: &LayoutAnalyze) -> Result<(), Error> {
    if arguments.style.json {
        return print(&to_json(result));
    }
    print(&render_text(result, &text_options(arguments.style.verbose, io::stdout().is_terminal())))
}

/// A form in which something of the result can be saved.
#[derive(Clone, Copy)]
enum Form {
    Html,
    Json,
    Dot,
    Callgrind,
}

const FORMS: [(&str, Form); 2] = [("html", Form::Html), ("json", Form::Json)];

/// Opens the output files before the work begins.
fn open(arguments: &LayoutAnalyze) -> Result<Files<Form>, Error> {
    let inputs = [Some(&*arguments.trace), arguments.layout.as_deref()];
    let inputs: Vec<&Path> = inputs.into_iter().flatten().collect();
    let names = ".html for the page, or in .json for the data";
    let mut files = Files::open(&arguments.outputs, &FORMS, names, &inputs)?;
    for (path, form) in [(&arguments.dot, Form::Dot), (&arguments.callgrind, Form::Callgrind)] {
        path.iter().try_for_each(|path| files.add(path, form, &inputs))?;
    }
    Ok(files)
}
