//! What alternatives change in caches of memory.

use crate::figures::{description, total_cycles, whole};
use crate::numbers::{change, ratio, signed};
use crate::schema::{CacheChange, CacheDescription, MachineResult, ProcessResult, RunResult, WhatIf};
use crate::sections::{Cell, Column, Part, Row, RowStyle, Table};
use std::ops::Range;

/// The table, and what to know of recolored pages, or why they have no row; nothing if the first machine has no caches.
pub(super) fn parts(result: &RunResult, process: &ProcessResult) -> Vec<Part> {
    let rows = process.what_if.iter().filter_map(|what_if| Some((what_if, what_if.caches.as_ref()?)));
    let rows: Vec<_> = rows.collect();
    let Some(machine) = process.machines.first().filter(|_| rows.len() > 1) else { return Vec::new() };
    let reason = match rows.iter().any(|(what_if, _)| what_if.id == "recolored") {
        true => Some(RECOLORED.to_owned()),
        false => description(result, &machine.name).and_then(|shape| no_recoloring(&shape.caches)),
    };
    let mut table = table(machine, &rows);
    table.remarks.extend(reason.iter().map(|why| ("", why.clone())));
    let heading = Part::Heading("What it changes in caches of memory".to_owned(), "");
    let note = Part::Note(reason.map_or_else(|| MISSES.to_owned(), |why| format!("{MISSES} {why}")));
    vec![heading, note, Part::Table(table)]
}

const MISSES: &str = "Misses are lines that the caches of a level do not have, for the program and its walks, per \
                      1000 instructions; waits are modelled cycles of the program's references.";

const RECOLORED: &str =
    "Recolored pages are compared with the same kernel's own frames, in the row above them.";

/// Why no frames are better, where that is not obvious.
fn no_recoloring(caches: &[CacheDescription]) -> Option<String> {
    let is_it = |cache: &&CacheDescription| cache.level == 2 && cache.serves.iter().any(|who| who == "load");
    let cache = caches.iter().find(is_it).filter(|cache| !cache.shared)?;
    match cache.colors {
        0 => Some(format!("No row of recolored pages: frames do not tell the sets of {}.", cache.name)),
        1 => None,
        _ => Some(
            "No row of recolored pages: frames follow addresses here, as under page coloring; with --os, kernels \
             with a physical memory or a placement have other frames."
                .to_owned(),
        ),
    }
}

fn table(machine: &MachineResult, rows: &[(&WhatIf, &CacheChange)]) -> Table {
    let levels = rows.iter().map(|(_, caches)| caches.misses.len()).max().unwrap_or(0);
    // Most alternatives leave the first of several levels as it is.
    let changes_first = |caches: &CacheChange| caches.misses.first() != caches.baseline_misses.first();
    let first = usize::from(levels > 1 && !rows.iter().any(|(_, caches)| changes_first(caches)));
    let levels = first..levels;
    let mut columns = vec![Column::words("What if, in caches", 0)];
    columns.extend(levels.clone().map(|level| Column::stays(format!("L{} cache misses", level + 1))));
    columns.extend([
        Column::goes("waits", 1),
        Column::stays("change of waits"),
        Column::goes("of all cycles", 3),
    ]);
    columns.push(Column::words("class", 2).on_terminals());
    let remark = "misses: lines that the caches of a level do not have, for the program and its walks, per 1000 \
                  instructions";
    let late = "rows that begin later are compared with the same stretch of the program as it is";
    let is_late = |what_if: &WhatIf| what_if.to_instruction.is_none() && what_if.from_instruction > 0;
    let late = rows.iter().any(|(what_if, _)| is_late(what_if)).then_some(late);
    Table {
        columns,
        rows: rows.iter().map(|&(what_if, caches)| row(machine, what_if, caches, levels.clone())).collect(),
        remarks: [Some(remark), late].into_iter().flatten().map(|text| ("", text.to_owned())).collect(),
        is_whole: true,
        ..Table::default()
    }
}

fn row(machine: &MachineResult, what_if: &WhatIf, caches: &CacheChange, levels: Range<usize>) -> Row {
    let is_baseline = what_if.id == "baseline";
    let end = what_if.to_instruction.or_else(|| whole(machine, "instructions")).unwrap_or(0);
    let instructions = end.saturating_sub(what_if.from_instruction);
    let misses = |level: usize| {
        let misses = caches.misses.get(level).copied().unwrap_or(0) as f64;
        Cell::real((instructions > 0).then(|| misses * 1000.0 / instructions as f64), ratio)
    };
    let versus = |cell: Option<Cell>| Cell::or_dash(cell.filter(|_| !is_baseline));
    let changed = caches.stall_cycles as f64 - caches.baseline_stall_cycles as f64;
    let relative = Cell::figure(change(caches.baseline_stall_cycles, caches.stall_cycles), changed);
    let cycles = total_cycles(machine).filter(|&cycles| cycles > 0.0);
    let of_all = cycles.map(|cycles| Cell::figure(signed(changed / cycles), changed / cycles));
    let mut cells = vec![Cell::named(&what_if.title, "")];
    cells.extend(levels.map(misses));
    cells.extend([Cell::count(caches.stall_cycles), versus(Some(relative)), versus(of_all)]);
    cells.push(Cell::Text(what_if.class.clone()));
    let look = match what_if.to_instruction {
        _ if is_baseline => RowStyle::Emphasised,
        Some(_) => RowStyle::Minor,
        None => RowStyle::Plain,
    };
    Row::new(look, cells)
}
