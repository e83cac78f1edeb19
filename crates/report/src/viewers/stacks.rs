//! Folded stacks, a line each: `process;object;function (file:line) COST`, as flame graphs read them. The cost is walk
//! cycles, or walks if the machine has no costs.

use super::Viewer;
use super::leaves::{has_cycles, leaves, process_name};
use crate::schema::RunResult;
use std::fmt::Write;

/// The format.
pub(super) const FORMAT: Viewer =
    Viewer { name: "folded", about: "folded stacks, for flamegraph.pl, inferno and speedscope", render };

fn render(result: &RunResult) -> String {
    let has_cycles = has_cycles(&result.processes);
    let mut out = String::new();
    for process in &result.processes {
        let root = frame(&process_name(process));
        for leaf in leaves(process) {
            let cost = if has_cycles { leaf.cost.walk_cycles } else { leaf.cost.walks() };
            if cost == 0 {
                continue;
            }
            let object = if leaf.object.is_empty() { String::new() } else { frame(leaf.object_name()) + ";" };
            let _ = writeln!(out, "{root};{object}{} {cost}", frame(&leaf.label()));
        }
    }
    out
}

/// A name as a frame: without what ends frames and lines.
fn frame(name: &str) -> String {
    name.chars()
        .map(|c| {
            if c == ';' {
                ':'
            } else if c.is_control() {
                ' '
            } else {
                c
            }
        })
        .collect()
}
