//! Sections that are tables, on the terminal.

use super::Page;
use super::paint::{Line, Style, bar};
use super::table::{Narrow, Table, names, numbers, walks};
use crate::printable::printable;
use crate::schema::ProcessResult;
use crate::sections::{self, Cell, SECTIONS};

/// Rows of a table before the rest is counted.
const SHOWN: usize = 8;
/// Rows with `-v`.
const SHOWN_VERBOSE: usize = 40;

/// All sections that the process has.
pub(super) fn write(page: &mut Page, process: &ProcessResult) {
    for made in SECTIONS.iter().filter_map(|section| (section.table)(process)) {
        page.blank();
        table(page, &made);
    }
}

fn table(page: &mut Page, made: &sections::Table) {
    let is_walks = |index: usize| made.rows.iter().any(|row| matches!(row[index], Cell::Walks { .. }));
    let column = |(index, column): (usize, &sections::Column)| match (index, column.goes) {
        (0, _) => names(&column.title),
        (_, goes) if is_walks(index) => walks(Narrow::Drop(goes)),
        (_, 0) => numbers(&column.title, Narrow::Keep),
        (_, goes) => numbers(&column.title, Narrow::Drop(goes)),
    };
    let mut table = Table::new(made.columns.iter().enumerate().map(column).collect());
    let shown = if page.verbose { SHOWN_VERBOSE } else { SHOWN };
    for row in made.rows.iter().take(shown) {
        table.row(row.iter().map(cell).collect());
    }
    page.table(table);
    if made.rows.len() > shown {
        page.line(Line::new(Style::Quiet, format!("  … and {} more", made.rows.len() - shown)));
    }
}

/// A column of bars has no text at all, and so goes.
fn cell(cell: &Cell) -> Line {
    match cell {
        Cell::Text(text) if text == "–" => Line::new(Style::Quiet, text.as_str()),
        Cell::Text(text) => Line::new(Style::Plain, printable(text)),
        &Cell::Walks { data, fetch, of } => bar(data, fetch, of),
        Cell::Bar(..) => Line::default(),
    }
}
