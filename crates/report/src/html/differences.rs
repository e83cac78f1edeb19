//! Differences between runs other than their figures, in words: they make runs hard to compare.

use super::ReportedRun;
use crate::figures::description;
use crate::schema::RunResult;

/// The start of a sentence, and a run's value of the aspect.
type Aspect = (&'static str, fn(&RunResult) -> String);

const ASPECTS: [Aspect; 7] = [
    ("They did not run the same", ran),
    ("Their regions of interest differ", |result| asked(result, &REGION, "the whole run")),
    ("They were simulated in different ways", |result| asked(result, &WAYS, "as recorded")),
    ("Their modes of transparent huge pages differ", thp),
    ("They ran on different CPUs, on which libraries may run other code", |result| result.host.cpu.clone()),
    ("Their references come from different engines or files", |result| result.tool.engine.clone()),
    ("They were made by different versions of pagewalk", |result| result.tool.version.clone()),
];

/// Options that choose a part of the run.
const REGION: [&str; 4] = ["--from-marker", "--to-marker", "--skip", "--max-instructions"];
/// Options that change what a machine simulates.
const WAYS: [&str; 5] = ["--layout", "--structure", "--quantum", "--switch-at", "--cores"];

/// Characters of a value that are shown.
const SHOWN: usize = 160;

/// A sentence for each difference.
pub(super) fn differences(runs: &[ReportedRun<'_>]) -> Vec<String> {
    let aspects = ASPECTS.iter().filter_map(|(what, of)| {
        let groups = grouped(runs, |result| Some(of(result)));
        let told = groups.iter().map(|(value, files)| format!("{} ({})", shortened(value), files.join(", ")));
        (groups.len() > 1).then(|| format!("{what}: {}.", told.collect::<Vec<_>>().join("; ")))
    });
    aspects.chain(machines(runs)).collect()
}

/// Machines with the same name and different descriptions.
fn machines(runs: &[ReportedRun<'_>]) -> impl Iterator<Item = String> {
    let mut names: Vec<&str> = Vec::new();
    for machine in runs.iter().flat_map(|run| &run.result.descriptions) {
        if !names.contains(&machine.name.as_str()) {
            names.push(&machine.name);
        }
    }
    names.into_iter().filter_map(|name| {
        let groups = grouped(runs, |result| description(result, name));
        let told = groups.iter().map(|(_, files)| format!("one in {}", files.join(", ")));
        (groups.len() > 1).then(|| {
            let told = told.collect::<Vec<_>>().join("; another ");
            format!("Machine {name} is described in different ways: {told}.")
        })
    })
}

/// Files grouped by value, in the order of each value's first file.
fn grouped<'a, T: PartialEq>(
    runs: &[ReportedRun<'a>],
    of: impl Fn(&'a RunResult) -> Option<T>,
) -> Vec<(T, Vec<&'a str>)> {
    let mut groups: Vec<(T, Vec<&str>)> = Vec::new();
    for run in runs {
        let Some(value) = of(run.result) else { continue };
        match groups.iter_mut().find(|(known, _)| *known == value) {
            Some((_, files)) => files.push(run.file),
            None => groups.push((value, vec![run.file])),
        }
    }
    groups
}

/// The command line of the run; for programs that take turns, their names.
fn ran(result: &RunResult) -> String {
    match result.processes.first() {
        None => "nothing".to_owned(),
        Some(process) if process.origin == "interleaved" => process.program.clone(),
        Some(process) => {
            let arguments = process.command_line.iter().skip(1);
            std::iter::once(&process.program).chain(arguments).cloned().collect::<Vec<_>>().join(" ")
        }
    }
}

/// The simulated THP mode: the host's, unless an option sets another.
fn thp(result: &RunResult) -> String {
    option(result, "--thp").unwrap_or(&result.host.thp).to_owned()
}

/// The options among `options` that pagewalk was given, or `none`.
fn asked(result: &RunResult, options: &[&str], none: &str) -> String {
    let given = options.iter().filter_map(|name| Some(format!("{name} {}", option(result, name)?)));
    let given: Vec<String> = given.collect();
    if given.is_empty() { none.to_owned() } else { given.join(" ") }
}

/// The value of one of pagewalk's own options.
fn option<'a>(result: &'a RunResult, name: &str) -> Option<&'a str> {
    let own = result.tool.command_line.iter().map(String::as_str).take_while(|argument| *argument != "--");
    let own: Vec<&str> = own.collect();
    let at = own.iter().position(|argument| argument.split('=').next() == Some(name))?;
    match own[at].split_once('=') {
        Some((_, value)) => Some(value),
        None => own.get(at + 1).copied(),
    }
}

fn shortened(value: &str) -> String {
    match value.chars().count() {
        length if length > SHOWN => value.chars().take(SHOWN - 1).chain(['…']).collect(),
        _ => value.to_owned(),
    }
}
