//! Sections of the report that are tables of one process: one file a section, and its line in [`SECTIONS`].
//!
//! A section makes its table from the result; the renderers of text and of pages show every section alike. What is in
//! a cell is text already: renderers compute no figure.

mod cores;
mod groups;
mod processes;
mod sides;
mod threads;

use crate::schema::ProcessResult;

/// All sections, in the order in which they are shown.
pub(crate) static SECTIONS: &[Section] =
    &[processes::SECTION, cores::SECTION, threads::SECTION, sides::SECTION];

/// A section of the report.
pub(crate) struct Section {
    /// What links to it name.
    pub id: &'static str,
    pub title: &'static str,
    /// What the table tells, in a sentence or two.
    pub lead: &'static str,
    /// Its table, if the process has what it tells of.
    pub table: fn(&ProcessResult) -> Option<Table>,
}

/// Rows of cells under columns. The first column names the row.
pub(crate) struct Table {
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<Cell>>,
    /// The row that the others are compared with.
    pub emphasised: Option<usize>,
}

/// A column of figures, or, as the first one, of names.
pub(crate) struct Column {
    pub title: String,
    /// In which order columns go where a terminal is too narrow, the highest first; 0: it stays.
    pub goes: u8,
}

impl Column {
    fn stays(title: impl Into<String>) -> Column {
        Column::goes(title, 0)
    }

    fn goes(title: impl Into<String>, goes: u8) -> Column {
        Column { title: title.into(), goes }
    }
}

/// What stands in a row under a column.
pub(crate) enum Cell {
    Text(String),
    /// A part of one, as the length of a bar in this style of pages. The terminal leaves it out.
    Bar(f64, &'static str),
    /// Walks by data references and by fetches, as the lengths of bars that are parts of a number of walks.
    Walks {
        data: u64,
        fetch: u64,
        of: u64,
    },
}

impl Cell {
    fn or_dash(text: Option<String>) -> Cell {
        Cell::Text(text.unwrap_or_else(|| "–".to_owned()))
    }

    fn bar(value: f64, most: f64, look: &'static str) -> Cell {
        Cell::Bar(if most > 0.0 { value / most } else { 0.0 }, look)
    }
}
