//! Callgrind's output, for KCachegrind, QCachegrind and `callgrind_annotate` (Valgrind's manual, "Callgrind Format
//! Specification").
//!
//! A process is a function that calls each of its functions once, for there are no call stacks. A function's cost
//! stands at the line of its costliest walk, or at line 0.

use super::Viewer;
use super::leaves::{Cost, Leaf, leaves, process_name};
use crate::schema::{ProcessResult, RunResult};
use std::fmt::Write;

/// The events, in the order of [`numbers`].
const EVENTS: &str = "Walks DataWalks FetchWalks WalkCycles";
/// A file or an object that is not known.
const UNKNOWN: &str = "???";

/// The format.
pub(super) const FORMAT: Viewer = Viewer {
    name: "callgrind",
    about: "Callgrind's output, for KCachegrind and `callgrind_annotate`",
    render,
};

fn render(result: &RunResult) -> String {
    let processes: Vec<(&ProcessResult, Vec<Leaf<'_>>)> =
        result.processes.iter().map(|process| (process, leaves(process))).collect();
    let costs = processes.iter().flat_map(|(_, leaves)| leaves).map(|leaf| leaf.cost);
    let total = costs.fold(Cost::default(), |sum, cost| sum.plus(&cost));
    let mut out = format!(
        "# callgrind format\nversion: 1\ncreator: pagewalk {}\ncmd: {}\npositions: line\nevents: {EVENTS}\n\
         summary: {}\n",
        line(&result.tool.version),
        line(&result.tool.command_line.join(" ")),
        numbers(&total),
    );
    processes.iter().for_each(|(process, leaves)| write_process(&mut out, process, leaves));
    let _ = writeln!(out, "\ntotals: {}", numbers(&total));
    out
}

fn write_process(out: &mut String, process: &ProcessResult, leaves: &[Leaf<'_>]) {
    for leaf in leaves {
        let (object, file, name) = place(leaf);
        let _ = writeln!(out, "\nob={object}\nfl={file}\nfn={name}\n{} {}", at(leaf), numbers(&leaf.cost));
    }
    let root = line(&process_name(process));
    let _ = writeln!(out, "\nob={}\nfl={UNKNOWN}\nfn={root}", line(&process.program));
    for leaf in leaves {
        let (object, file, name) = place(leaf);
        let numbers = numbers(&leaf.cost);
        let _ = writeln!(out, "cob={object}\ncfi={file}\ncfn={name}\ncalls=1 {}\n0 {numbers}", at(leaf));
    }
}

/// The names of object, file and function.
fn place(leaf: &Leaf<'_>) -> (String, String, String) {
    let known = |name: &str| if name.is_empty() { UNKNOWN.to_owned() } else { line(name) };
    (known(leaf.object), known(leaf.file.unwrap_or_default()), known(leaf.name))
}

fn at(leaf: &Leaf<'_>) -> u32 {
    leaf.line.unwrap_or(0)
}

fn numbers(cost: &Cost) -> String {
    format!("{} {} {} {}", cost.walks(), cost.walks_data, cost.walks_fetch, cost.walk_cycles)
}

/// A name as the rest of a line. One in parentheses would be the number of a name.
fn line(name: &str) -> String {
    let name: String = name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    match name.starts_with('(') {
        true => format!("_{name}"),
        false => name,
    }
}
