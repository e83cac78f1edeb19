//! `pagewalk layout analyze`: who fights for the sets of a TLB.

mod names;
mod result;

use crate::arguments::LayoutAnalyze;
use crate::command::simulate::layout::PlanFile;
use crate::command::simulate::open;
use crate::command::trace::tell_grain;
use crate::error::{CliError, Code};
use crate::machine;
use crate::output::{Output, print, say, say_next, text_options};
use crate::process::{Ending, explain_region, follow_ahead};
use names::Names;
use pagewalk_layout::calls::{CallGraph, Calls};
use pagewalk_layout::evictions::{ArraySpec, DEFAULT_ROWS, Evictions, History};
use pagewalk_layout::graph::EvictionGraph;
use pagewalk_layout::objects::Owners;
use pagewalk_report::conflicts::{ConflictsResult, places_could_help, render_html, render_text, to_json};
use pagewalk_trace::{Source, StreamHeader};
use pagewalk_translate::{MachineSpec, TlbSpec};
use pagewalk_units::PageSize;
use pagewalk_units::names::choice;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub fn run(arguments: LayoutAnalyze) -> Result<ExitCode, CliError> {
    let machine = machine::load_and_say(&arguments.machine, arguments.style.quiet)?;
    let tlbs = chosen(&machine, arguments.tlb.as_deref())?;
    check_set(&tlbs, arguments.set)?;
    let plan = arguments.layout.as_deref().map(PlanFile::read).transpose()?;
    let outputs = Outputs::open(&arguments)?;
    let reader = open(&arguments.trace, arguments.style.quiet)?;
    tell_grain(&arguments.trace, reader.header());
    let watched = match plan {
        Some(plan) => watch(plan.move_objects(&arguments.trace, reader)?, &arguments, &tlbs),
        None => watch(reader, &arguments, &tlbs),
    };
    explain_region(&arguments.region, watched.ending.region);
    let mut names = Names::of(&watched.owners);
    let result = result::of(&watched, &machine, &tlbs, &arguments, &mut names);
    let printed = publish(&result, &arguments);
    let written = outputs.write(&result, &watched, &arguments, &mut names);
    if !arguments.style.quiet {
        names.lost().for_each(say);
    }
    printed.and(written)?;
    // What was analysed under a plan has one.
    if arguments.layout.is_none() && result.arrays.iter().any(places_could_help) {
        let (machine, trace) = (&arguments.machine, arguments.trace.display());
        say_next(arguments.style.quiet, format!("pagewalk layout plan -m {machine} -o plan.toml {trace}"));
    }
    if !watched.ending.cut {
        return Ok(ExitCode::SUCCESS);
    }
    // What could be read is printed all the same.
    watched.ending.losses.iter().for_each(|loss| say(format!("{}: {loss}", arguments.trace.display())));
    Ok(ExitCode::from(Code::BadInput as u8))
}

/// What was seen of a stream.
struct Watched {
    header: StreamHeader,
    histories: Vec<History>,
    owners: Owners,
    calls: CallGraph,
    ending: Ending,
}

fn watch<S: Source + Send>(source: S, arguments: &LayoutAnalyze, tlbs: &[&TlbSpec]) -> Watched {
    let header = source.header().clone();
    let specs: Vec<ArraySpec> = tlbs.iter().filter_map(|tlb| ArraySpec::of(tlb)).collect();
    let evictions = Evictions::new(&header, &specs, DEFAULT_ROWS);
    let mut both = (evictions, Calls::new(&header));
    let ending = follow_ahead(source, &arguments.region, &mut both);
    let (evictions, calls) = both;
    let (histories, owners) = evictions.finish();
    Watched { header, histories, owners, calls: calls.finish(), ending }
}

/// The machine's array of this name, or those of its last level that hold base pages.
fn chosen<'a>(machine: &'a MachineSpec, name: Option<&str>) -> Result<Vec<&'a TlbSpec>, CliError> {
    let usage = |why: String| CliError::new(Code::Usage, format!("machine `{}`: {why}", machine.name));
    let base = PageSize::FOUR_KIB;
    let all: Vec<&str> = machine.tlbs.iter().map(|tlb| tlb.name.as_str()).collect();
    let last = machine.tlbs.iter().filter(|tlb| tlb.holds(base)).map(|tlb| tlb.level).max();
    let wanted = |tlb: &&TlbSpec| match name {
        Some(name) => tlb.name == name,
        None => Some(tlb.level) == last && tlb.holds(base),
    };
    let tlbs: Vec<&TlbSpec> = machine.tlbs.iter().filter(wanted).collect();
    if tlbs.is_empty() {
        return Err(match name {
            Some(name) => usage(format!("no array `{name}`: {}", choice(name, &all))),
            None => usage("no array holds 4K pages".to_owned()),
        });
    }
    if let Some(tlb) = tlbs.iter().find(|tlb| !tlb.holds(base) || tlb.pages_per_entry > 1) {
        let why = format!("array `{}` does not have one entry for each 4K page", tlb.name);
        return Err(usage(why).or("give another one with --tlb, or another machine with -m"));
    }
    if let Some(tlb) = tlbs.iter().find(|tlb| tlb.index.sets().is_none()) {
        let why =
            format!("array `{}` is {}: pages have no set there that others fight for", tlb.name, tlb.index);
        return Err(usage(why).or("give another one with --tlb, or another machine with -m"));
    }
    Ok(tlbs)
}

fn check_set(tlbs: &[&TlbSpec], set: Option<usize>) -> Result<(), CliError> {
    let sets = tlbs.iter().map(|tlb| tlb.geometry.sets()).min().unwrap_or(0);
    match set {
        Some(set) if set >= sets => {
            Err(CliError::new(Code::Usage, format!("--set {set}: sets go from 0 to {}", sets - 1)))
        }
        _ => Ok(()),
    }
}

fn publish(result: &ConflictsResult, arguments: &LayoutAnalyze) -> Result<(), CliError> {
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

/// Where it goes: files opened before the work began.
struct Outputs(Vec<(Output, Form)>);

impl Outputs {
    fn open(arguments: &LayoutAnalyze) -> Result<Outputs, CliError> {
        let results = arguments.outputs.iter().map(|path| Ok((path, form_of(path)?)));
        let apart = [(&arguments.dot, Form::Dot), (&arguments.callgrind, Form::Callgrind)];
        let apart = apart.into_iter().filter_map(|(path, form)| Some(Ok((path.as_ref()?, form))));
        let open = |path: Result<(&PathBuf, Form), CliError>| {
            let (path, form) = path?;
            let inputs = [Some(&*arguments.trace), arguments.layout.as_deref()].into_iter().flatten();
            Ok((Output::open_apart(path, inputs)?, form))
        };
        results.chain(apart).map(open).collect::<Result<_, _>>().map(Outputs)
    }

    /// Writes every file, also those after one that fails.
    fn write(
        self,
        result: &ConflictsResult,
        watched: &Watched,
        arguments: &LayoutAnalyze,
        names: &mut Names,
    ) -> Result<(), CliError> {
        let mut write = |(output, form): (Output, Form)| {
            let (what, text) = match form {
                Form::Html => ("report", render_html(result)),
                Form::Json => ("result", to_json(result)),
                Form::Dot => ("graph", dot(watched, arguments, names)),
                Form::Callgrind => ("call graph", callgrind(watched, names)),
            };
            let path = output.write(text.as_bytes())?;
            if !arguments.style.quiet {
                say(format!("{what} written to {}", path.display()));
            }
            Ok(())
        };
        let mut outcome = Ok(());
        for file in self.0 {
            outcome = outcome.and(write(file));
        }
        outcome
    }
}

fn form_of(path: &Path) -> Result<Form, CliError> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("html") => Ok(Form::Html),
        Some("json") => Ok(Form::Json),
        _ => Err(CliError::new(Code::Usage, format!("cannot tell what to write to {}", path.display()))
            .or("let the name end in .html for the page, or in .json for the data")),
    }
}

/// The set asked for, or the one with most misses, of each array.
fn dot(watched: &Watched, arguments: &LayoutAnalyze, names: &mut Names) -> String {
    let graph = |history: &History| {
        let set = arguments.set.unwrap_or_else(|| result::sets_by_misses(history)[0]);
        let graph = EvictionGraph::new(history, set, arguments.least);
        let page = |page: usize| names::page(&history.pages[page], &watched.owners);
        graph.to_dot(history, page, |row| names.cause(row, history, &watched.owners))
    };
    watched.histories.iter().map(graph).collect()
}

fn callgrind(watched: &Watched, names: &mut Names) -> String {
    let command = watched.header.arguments.join(" ");
    watched.calls.to_callgrind(&command, |file, offset| names.function(file, offset))
}
