//! Walks by mapping.

use super::findings::{first, share, walks};
use super::{Cell, Column, Content, Part, Row, Section, Table, Terminal};
use crate::numbers::{bytes, count, percent};
use crate::schema::{MappingRow, ProcessResult, RunResult};

pub(super) const SECTION: Section = Section {
    id: "who-pays",
    link: "Who pays",
    title: "Walks by mapping",
    lead: "Page walks by the mapping they translate, data references and instruction fetches apart.",
    terminal: Terminal::Never,
    make,
};

/// What rows leave out in an operating system's structure.
const VISITORS: &str = "Those of its kernel and servers are among all walks, and in no row.";

/// The parts of bars of walks.
pub(super) const LEGEND: [(&str, &str); 2] = [("data", "data references"), ("fetch", "instruction fetches")];

/// Rows that a page shows before the reader asks for more.
pub(super) const FIRST: usize = 8;

fn make(_: &RunResult, process: &ProcessResult) -> Option<Content> {
    let all = walks(process);
    let rows = &process.attribution.mappings;
    let longest = rows.iter().map(MappingRow::walks).max().filter(|&walks| walks > 0)?;
    let costliest = rows.iter().find(|row| row.walks() > 0).map(|row| (row.label(), row.walks()));
    let costliest = costliest.as_ref().map(|(name, walks)| (name.as_str(), *walks));
    let table = Table {
        columns: columns(),
        rows: rows.iter().map(|row| Row::from(cells(row, all, longest))).collect(),
        what: "mappings",
        sorted: Some(6),
        first: Some(FIRST),
        ..Table::default()
    };
    let parts = vec![Part::Legend(LEGEND.into()), Part::Table(table)];
    let lead = process.structure.is_some().then(|| format!("{} {VISITORS}", SECTION.lead));
    Some(Content { finding: first(costliest, all), lead, parts })
}

fn columns() -> Vec<Column> {
    vec![
        Column::stays("Mapping"),
        Column::words("data and fetch", 3),
        Column::stays("walks"),
        Column::stays("share"),
        Column::stays("data"),
        Column::stays("fetch"),
        Column::goes("walk cycles", 1),
        Column::words("kind", 2),
        Column::stays("start"),
        Column::stays("size"),
        Column::stays("pages touched"),
        Column::stays("references"),
    ]
}

fn cells(row: &MappingRow, all: u64, longest: u64) -> Vec<Cell> {
    let build = row.build_id.as_ref().map_or(String::new(), |id| format!("build-id {id}"));
    let references = row.references_data.saturating_add(row.references_fetch);
    let (data, fetch) = (count(row.references_data), count(row.references_fetch));
    vec![
        Cell::named(row.label(), build),
        Cell::Walks { data: row.walks_data, fetch: row.walks_fetch, of: longest },
        Cell::count(row.walks()),
        Cell::figure(percent(share(row.walks(), all)), row.walks() as f64),
        Cell::count(row.walks_data),
        Cell::count(row.walks_fetch),
        Cell::count(row.walk_cycles),
        Cell::Text(row.kind.replace('_', " ")),
        Cell::figure(format!("{:#x}", row.start), row.start as f64),
        Cell::figure(bytes(row.bytes), row.bytes as f64),
        Cell::count(row.pages_touched),
        Cell::Figure(count(references), references as f64, format!("{data} data, {fetch} fetch")),
    ]
}
