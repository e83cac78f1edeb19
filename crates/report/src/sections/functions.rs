//! Walks by function.

use super::findings::{first, share, walks};
use super::mappings::LEGEND;
use super::{Cell, Column, Content, Part, Row, Section, Table, Terminal};
use crate::numbers::{exact, percent};
use crate::schema::{FunctionRow, ProcessResult, RunResult};

pub(super) const SECTION: Section = Section {
    id: "functions",
    link: "Functions",
    title: "Walks by function",
    lead: "Data walks belong to the function that made the reference, fetch walks to the function whose code was \
           fetched.",
    terminal: Terminal::Never,
    make,
};

/// Most that a page shows.
const SHOWN: usize = 1000;

fn make(_: &RunResult, process: &ProcessResult) -> Option<Content> {
    let all = walks(process);
    let functions = process.attribution.functions.iter();
    // A function may miss caches only.
    let rows: Vec<&FunctionRow> = functions.filter(|row| row.walks() > 0).collect();
    let longest = rows.iter().map(|row| row.walks()).max()?;
    let table = Table {
        columns: vec![
            Column::stays("Function"),
            Column::words("source", 2),
            Column::words("data and fetch", 3),
            Column::stays("walks"),
            Column::stays("share"),
            Column::stays("data"),
            Column::stays("fetch"),
            Column::goes("walk cycles", 1),
        ],
        rows: rows.iter().take(SHOWN).map(|row| Row::from(cells(row, all, longest))).collect(),
        what: "functions",
        sorted: Some(7),
        ..Table::default()
    };
    let finding = first(rows.first().map(|row| (row.name.as_str(), row.walks())), all);
    let parts = vec![Part::Legend(LEGEND.into()), Part::Table(table)];
    let left_out = rows.len().saturating_sub(SHOWN) as u64;
    let lead = format!("{} {} more functions are in the data of the page.", SECTION.lead, exact(left_out));
    Some(Content { finding, lead: (left_out > 0).then_some(lead), parts })
}

fn cells(row: &FunctionRow, all: u64, longest: u64) -> Vec<Cell> {
    let source = match (&row.file, row.line) {
        (Some(file), Some(line)) => format!("{file}:{line}"),
        (Some(file), None) => file.clone(),
        (None, _) => "–".to_owned(),
    };
    vec![
        Cell::named(&row.name, &row.object),
        Cell::Text(source),
        Cell::Walks { data: row.walks_data, fetch: row.walks_fetch, of: longest },
        Cell::count(row.walks()),
        Cell::figure(percent(share(row.walks(), all)), row.walks() as f64),
        Cell::count(row.walks_data),
        Cell::count(row.walks_fetch),
        Cell::count(row.walk_cycles),
    ]
}
