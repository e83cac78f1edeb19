//! What walks, function by function.

use crate::figures;
use crate::schema::{FunctionRow, MachineResult, Number, ProcessResult};
use std::path::Path;

/// The name of what no function of a list has.
pub const REST: &str = "[not attributed to a function]";

/// Walks and their cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cost {
    pub walks_data: u64,
    pub walks_fetch: u64,
    pub walk_cycles: u64,
}

impl Cost {
    /// Of everything on a machine.
    pub fn of_machine(machine: &MachineResult) -> Cost {
        let count = |name: &str| match machine.metrics.get(name) {
            Some(Number::Count(count)) => *count,
            // A real count comes from a file that somebody else made.
            Some(Number::Real(real)) => *real as u64,
            None => 0,
        };
        Cost {
            walks_data: count("walks_data"),
            walks_fetch: count("walks_fetch"),
            walk_cycles: count("walk_cycles"),
        }
    }

    fn of_function(row: &FunctionRow) -> Cost {
        Cost { walks_data: row.walks_data, walks_fetch: row.walks_fetch, walk_cycles: row.walk_cycles }
    }

    pub fn walks(&self) -> u64 {
        self.walks_data.saturating_add(self.walks_fetch)
    }

    fn minus(&self, other: &Cost) -> Cost {
        Cost {
            walks_data: self.walks_data.saturating_sub(other.walks_data),
            walks_fetch: self.walks_fetch.saturating_sub(other.walks_fetch),
            walk_cycles: self.walk_cycles.saturating_sub(other.walk_cycles),
        }
    }

    pub fn plus(&self, other: &Cost) -> Cost {
        Cost {
            walks_data: self.walks_data.saturating_add(other.walks_data),
            walks_fetch: self.walks_fetch.saturating_add(other.walks_fetch),
            walk_cycles: self.walk_cycles.saturating_add(other.walk_cycles),
        }
    }
}

/// A function, or the rest of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Leaf<'a> {
    /// The path of its object; empty for the rest.
    pub object: &'a str,
    pub name: &'a str,
    /// Its source file.
    pub file: Option<&'a str>,
    /// The line of its costliest walk.
    pub line: Option<u32>,
    pub cost: Cost,
}

impl Leaf<'_> {
    /// The object's file name, as stacks show it.
    pub fn object_name(&self) -> &str {
        Path::new(self.object).file_name().and_then(|name| name.to_str()).unwrap_or(self.object)
    }

    /// Its name with its place, as stacks show it.
    pub fn label(&self) -> String {
        match (self.file, self.line) {
            (Some(file), Some(line)) => format!("{} ({file}:{line})", self.name),
            (Some(file), None) => format!("{} ({file})", self.name),
            _ => self.name.to_owned(),
        }
    }
}

/// The process's functions with walks, and the rest.
pub(super) fn leaves(process: &ProcessResult) -> Vec<Leaf<'_>> {
    let mut leaves: Vec<Leaf<'_>> = process.attribution.functions.iter().map(leaf).collect();
    let attributed = leaves.iter().fold(Cost::default(), |sum, leaf| sum.plus(&leaf.cost));
    let total = process.machines.first().map_or(attributed, Cost::of_machine);
    leaves.push(Leaf { object: "", name: REST, file: None, line: None, cost: total.minus(&attributed) });
    leaves.retain(|leaf| leaf.cost != Cost::default());
    leaves
}

fn leaf(row: &FunctionRow) -> Leaf<'_> {
    Leaf {
        object: &row.object,
        name: &row.name,
        file: row.file.as_deref(),
        line: row.line,
        cost: Cost::of_function(row),
    }
}

/// The process's name in stacks.
pub(super) fn process_name(process: &ProcessResult) -> String {
    figures::named(&process.program, process)
}

/// Whether the result has cycles, which viewers then show, rather than walks.
pub(super) fn has_cycles(processes: &[ProcessResult]) -> bool {
    processes.iter().flat_map(leaves).any(|leaf| leaf.cost.walk_cycles > 0)
}
