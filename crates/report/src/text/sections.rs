//! Tables of sections, on the terminal.

use super::Page;
use super::paint::{Line, Style, bar};
use super::table::{Table, WhenNarrow, names, numbers, sentences, texts, walks};
use crate::printable::printable;
use crate::schema::{ProcessResult, RunResult};
use crate::sections::{self, Audience, Cell, Column, Part, Row, RowStyle, SECTIONS, Terminal};

/// Rows of a table before a count of the rest.
const SHOWN: usize = 8;
/// Rows with `-v`.
const SHOWN_VERBOSE: usize = 40;

/// Writes the sections of this place that the process has.
pub(super) fn write(page: &mut Page, result: &RunResult, process: &ProcessResult, place: Terminal) {
    let sections = SECTIONS.iter().filter(|section| section.terminal == place);
    for part in sections.filter_map(|section| (section.make)(result, process)).flat_map(|made| made.parts) {
        let Part::Table(made) = part else { continue };
        if made.columns.iter().all(|column| column.only == Audience::Pages) {
            continue;
        }
        page.blank();
        table(page, &made);
    }
}

/// Writes a table.
pub(super) fn table(page: &mut Page, made: &sections::Table) {
    let is_shown = |column: &Column| column.only != Audience::Pages;
    let columns = made.columns.iter().enumerate().filter(|(_, column)| is_shown(column));
    let has_walks = |index: usize| made.rows.iter().any(|row| matches!(row.cells[index], Cell::Walks { .. }));
    let columns = columns.map(|(index, column)| self::column(index, column, has_walks(index)));
    let mut table = Table::new(columns.collect());
    let rows: Vec<&Row> =
        made.rows.iter().filter(|row| page.verbose || row.look != RowStyle::Minor).collect();
    let shown = match page.verbose {
        _ if made.is_whole => rows.len(),
        true => SHOWN_VERBOSE,
        false => SHOWN,
    };
    for row in rows.iter().take(shown) {
        let cells = row.cells.iter().zip(&made.columns).enumerate();
        let cells = cells.filter(|(_, (_, column))| is_shown(column));
        table.row(cells.map(|(index, (told, column))| cell(told, style(row, index, column))).collect());
    }
    page.table(table);
    if rows.len() > shown {
        page.line(Line::new(Style::Quiet, format!("  … and {} more", rows.len() - shown)));
    }
    for (warning, text) in &made.remarks {
        let (lead, style) = match *warning {
            "" => (Line::new(Style::Quiet, "  "), Style::Quiet),
            warning => (Line::new(Style::Warning, format!("  {warning}  ")), Style::Plain),
        };
        page.paragraph(lead, style, &printable(text));
    }
}

fn column(index: usize, column: &Column, has_walks: bool) -> super::table::Column {
    let narrow = if column.goes == 0 { WhenNarrow::Keep } else { WhenNarrow::Drop(column.goes) };
    let title = printable(&column.title);
    match index {
        0 if column.is_words => sentences(&title),
        0 => names(&title),
        _ if has_walks => walks(narrow),
        _ if column.is_words => texts(&title, narrow),
        _ => numbers(&title, narrow),
    }
}

/// The style of a cell; words beside a name are dimmed.
fn style(row: &Row, index: usize, column: &Column) -> Style {
    let explains = index > 0 && column.is_words && column.only == Audience::All;
    if row.look == RowStyle::Bound || explains { Style::Quiet } else { Style::Plain }
}

fn cell(cell: &Cell, style: Style) -> Line {
    match cell {
        Cell::Text(text) if text == "–" => Line::new(Style::Quiet, text.as_str()),
        Cell::Text(text) => Line::new(style, printable(text)),
        Cell::Name(name) => Line::new(style, printable(&name.text)),
        Cell::Figure(text, ..) | Cell::Price(text, ..) => Line::new(style, text.as_str()),
        Cell::Bar(_) => Line::default(),
        &Cell::Walks { data, fetch, of } => bar(data, fetch, of),
    }
}
