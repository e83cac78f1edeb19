//! Each machine's caches of memory: how often they miss, for whom, and how long the program waits.

use super::{Cell, Column, Content, Part, Row, RowStyle, Section, Table, Terminal};
use crate::figures::{description, per_kilo_instruction, whole};
use crate::numbers::{bytes, percent, ratio};
use crate::schema::{CacheDescription, MachineResult, ProcessResult, RunResult};

pub(super) const SECTION: Section = Section {
    id: "caches",
    link: "Caches",
    title: "Caches of memory",
    lead: "A reference looks up one cache of each level until one has its line. Waits are modelled cycles beyond \
           what the nearest cache takes; nothing overlaps, so a processor that runs on waits less.",
    terminal: Terminal::Machine,
    make,
};

/// Whose accesses the columns split misses by.
const REQUESTERS: [(&str, &str); 4] =
    [("fetch", "fetches"), ("load", "loads"), ("store", "stores"), ("walk", "walks")];

fn make(result: &RunResult, process: &ProcessResult) -> Option<Content> {
    let of = |machine: &MachineResult| {
        let caches = &description(result, &machine.name)?.caches;
        let rows: Vec<Row> = caches.iter().map(|cache| row(machine, cache)).collect();
        (!rows.is_empty()).then(|| Part::Table(table(machine, process.machines.len() > 1, rows)))
    };
    let parts: Vec<Part> = process.machines.iter().filter_map(of).collect();
    let finding = process.machines.first().and_then(finding);
    (!parts.is_empty()).then(|| Content { finding, parts, ..Content::default() })
}

fn finding(machine: &MachineResult) -> Option<String> {
    let waited = whole(machine, "memory.stall_cycles")?;
    let instructions = whole(machine, "instructions").filter(|&instructions| instructions > 0)?;
    let cycles = ratio(waited as f64 / instructions as f64);
    Some(format!("On {} each instruction waits {cycles} cycles for caches and memory", machine.name))
}

/// Lookups and misses of one requester.
fn counts(machine: &MachineResult, cache: &CacheDescription, requester: &str) -> [u64; 2] {
    ["lookups", "misses"]
        .map(|what| whole(machine, &format!("cache.{}.{requester}_{what}", cache.name)).unwrap_or_default())
}

fn row(machine: &MachineResult, cache: &CacheDescription) -> Row {
    let by_requester = REQUESTERS.map(|(requester, _)| counts(machine, cache, requester));
    let [lookups, misses] = [0, 1].map(|what| by_requester.iter().map(|of| of[what]).sum::<u64>());
    let ways = if cache.ways == 1 { "1 way".to_owned() } else { format!("{} ways", cache.ways) };
    let mut cells = vec![
        // A TLB may have the same name.
        Cell::Text(format!("{} cache", cache.name)),
        Cell::Text(format!("{}, {ways}", bytes(cache.bytes))),
        Cell::count(lookups),
        Cell::count(misses),
        Cell::real((lookups > 0).then(|| misses as f64 / lookups as f64), percent),
        Cell::real(per_kilo_instruction(machine, misses), ratio),
    ];
    cells.extend(by_requester.iter().map(|&[lookups, misses]| {
        Cell::real(per_kilo_instruction(machine, misses).filter(|_| lookups > 0), ratio)
    }));
    Row::new(RowStyle::Plain, cells)
}

fn table(machine: &MachineResult, several: bool, rows: Vec<Row>) -> Table {
    let title = if several { format!("Cache of {}", machine.name) } else { "Cache".to_owned() };
    let mut columns = vec![
        Column::stays(title),
        Column::words("size, ways", 5),
        Column::goes("lookups", 4),
        Column::goes("misses", 3),
        Column::stays("miss ratio"),
        Column::stays("misses per 1000 instr."),
    ];
    columns.extend(REQUESTERS.map(|(_, name)| Column::goes(format!("of {name}"), 1)));
    Table { columns, rows, is_whole: true, ..Table::default() }
}
