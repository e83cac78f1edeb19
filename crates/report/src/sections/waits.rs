//! Misses in caches of memory by mapping, by function and by page, and the waits for them.

use super::mappings::FIRST;
use super::{Cell, Column, Content, Part, Row, Section, Table, Terminal};
use crate::figures::{per_kilo_instruction, total_cycles};
use crate::numbers::{percent, ratio};
use crate::schema::{MachineResult, ProcessResult, RunResult, WaitCounts};

pub(super) const SECTION: Section = Section {
    id: "waits",
    link: "Who waits",
    title: "Waits for caches and memory",
    lead: "Lines that the caches of a level do not have, per 1000 instructions of the program, and the share of all \
           modelled cycles that references wait for them. Nothing overlaps, so a processor that runs on waits less.",
    terminal: Terminal::Parts,
    make,
};

/// A row: what waits, more about it, and how long.
type Waiting<'a> = (String, String, &'a WaitCounts);

fn make(_: &RunResult, process: &ProcessResult) -> Option<Content> {
    let machine = process.machines.first()?;
    let attribution = &process.attribution;
    let mappings = attribution
        .mappings
        .iter()
        .filter_map(|row| Some((row.label(), row.kind.replace('_', " "), row.waits.as_ref()?)));
    let functions = attribution.functions.iter().filter_map(|row| {
        let source = row.file.as_ref().map(|file| match row.line {
            Some(line) => format!("{file}:{line}"),
            None => file.clone(),
        });
        Some((row.name.clone(), source.unwrap_or_else(|| row.object.clone()), row.waits.as_ref()?))
    });
    let pages = attribution
        .pages
        .iter()
        .filter_map(|row| Some((format!("{:#x}", row.address), row.mapping_label(), row.waits.as_ref()?)));
    let parts = [
        table(machine, ["Mapping that waits", "kind"], "mappings", mappings.collect()),
        table(machine, ["Function that waits", "source"], "functions", functions.collect()),
        table(machine, ["Page that waits", "mapping"], "pages", pages.collect()).map(on_pages),
    ];
    let parts: Vec<Part> = parts.into_iter().flatten().map(Part::Table).collect();
    (!parts.is_empty()).then(|| Content { parts, ..Content::default() })
}

/// A table for pages of the report: a terminal has no room for it.
fn on_pages(table: Table) -> Table {
    let columns = table.columns.into_iter().map(Column::on_pages).collect();
    Table { columns, ..table }
}

fn table(
    machine: &MachineResult,
    titles: [&str; 2],
    what: &'static str,
    rows: Vec<Waiting<'_>>,
) -> Option<Table> {
    let mut rows: Vec<_> = rows
        .into_iter()
        .filter(|(.., waits)| waits.stall_cycles > 0 || waits.misses.iter().any(|&n| n > 0))
        .collect();
    rows.sort_by_key(|(.., waits)| std::cmp::Reverse((waits.stall_cycles, waits.misses.clone())));
    let levels = rows.iter().map(|(.., waits)| waits.misses.len()).max()?;
    let mut columns =
        vec![Column::stays(titles[0]), Column::words(titles[1], 3), Column::stays("waits of all")];
    columns.extend((1..=levels).map(|level| Column::goes(format!("level-{level} cache misses"), 2)));
    let cycles = total_cycles(machine).filter(|&cycles| cycles > 0.0);
    let cells = |(name, about, waits): Waiting<'_>| {
        let share = cycles.map(|cycles| waits.stall_cycles as f64 / cycles);
        let mut cells = vec![Cell::named(name, ""), Cell::Text(about), Cell::real(share, percent)];
        cells.extend((0..levels).map(|level| {
            let misses = waits.misses.get(level).copied().unwrap_or_default();
            Cell::real(per_kilo_instruction(machine, misses), ratio)
        }));
        Row::from(cells)
    };
    let rows = rows.into_iter().map(cells).collect();
    let remark = "misses: lines that the caches of a level do not have, per 1000 instructions of the program";
    let remarks = vec![("", remark.to_owned())];
    Some(Table { columns, rows, what, sorted: Some(2), first: Some(FIRST), remarks, ..Table::default() })
}
