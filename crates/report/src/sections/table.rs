//! Tables of sections.

use crate::numbers::count;

/// A table. The first column names the row.
#[derive(Default)]
pub(crate) struct Table {
    pub columns: Vec<Column>,
    pub rows: Vec<Row>,
    /// Labels below the first column of bars: the place as a fraction of its width, and the text.
    pub ticks: Vec<(f64, String)>,
    /// Remarks below the table on a terminal, which shows no lead; the first words are styled as a warning.
    pub remarks: Vec<(&'static str, String)>,
    /// Shows all rows in their order.
    pub is_whole: bool,
    /// The name of its rows, for the search field; empty: no search.
    pub what: &'static str,
    /// The column by which rows are sorted, descending.
    pub sorted: Option<usize>,
    /// Rows that a page shows at first, if not the usual number.
    pub first: Option<usize>,
}

impl Table {
    /// Leaves out columns that have nothing for any row.
    pub fn leave_out_unknown(&mut self) {
        for index in (0..self.columns.len()).rev() {
            if self.rows.iter().all(|row| row.cells[index].is_dash()) {
                self.columns.remove(index);
                self.rows.iter_mut().for_each(|row| drop(row.cells.remove(index)));
            }
        }
    }
}

/// A column of figures or words.
pub(crate) struct Column {
    pub title: String,
    /// The order in which a narrow terminal drops columns, the highest first; 0: never.
    pub goes: u8,
    pub is_words: bool,
    pub only: Audience,
}

/// The renderers that show a column.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Audience {
    All,
    Pages,
    Terminals,
}

impl Column {
    pub fn stays(title: impl Into<String>) -> Column {
        Column::goes(title, 0)
    }

    pub fn goes(title: impl Into<String>, goes: u8) -> Column {
        Column { title: title.into(), goes, is_words: false, only: Audience::All }
    }

    pub fn words(title: impl Into<String>, goes: u8) -> Column {
        Column { is_words: true, ..Column::goes(title, goes) }
    }

    pub fn on_pages(self) -> Column {
        Column { only: Audience::Pages, ..self }
    }

    pub fn on_terminals(self) -> Column {
        Column { only: Audience::Terminals, ..self }
    }
}

/// A row of a table.
pub(crate) struct Row {
    pub cells: Vec<Cell>,
    pub look: RowStyle,
    /// The process that the page opens on a click on the row.
    pub opens: Option<usize>,
}

impl Row {
    pub fn new(look: RowStyle, cells: Vec<Cell>) -> Row {
        Row { cells, look, opens: None }
    }
}

impl From<Vec<Cell>> for Row {
    fn from(cells: Vec<Cell>) -> Row {
        Row::new(RowStyle::Plain, cells)
    }
}

/// The style of a row.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum RowStyle {
    Plain,
    /// The base of comparison, or the sum of the other rows.
    Emphasised,
    /// A bound.
    Bound,
    /// A minor row: a terminal shows it with `-v` only.
    Minor,
}

/// A cell.
pub(crate) enum Cell {
    Text(String),
    Name(Name),
    /// The text, the number to sort by, and smaller words below.
    Figure(String, f64, String),
    /// The text, the number to sort by, and the length of a small bar as a fraction.
    Price(String, f64, f64),
    /// A bar, which the terminal leaves out.
    Bar(Bar),
    /// Walks by data references and by fetches, as bars whose lengths are shares of a number of walks.
    Walks {
        data: u64,
        fetch: u64,
        of: u64,
    },
}

/// A name with what pages show beside it.
#[derive(Default)]
pub(crate) struct Name {
    pub text: String,
    /// The class of the row's figures, if it differs from the table's.
    pub tag: String,
    /// Smaller words below it.
    pub sub: String,
}

/// A bar.
#[derive(Default)]
pub(crate) struct Bar {
    /// Its pieces: lengths as fractions, each with its style on pages.
    pub parts: Vec<(f64, &'static str)>,
    /// A dashed line, at the same place in all rows.
    pub mark: Option<f64>,
    /// Whether the bar is cut.
    pub is_cut: bool,
    /// Smaller words below it.
    pub sub: String,
}

impl Cell {
    pub fn or_dash(cell: Option<Cell>) -> Cell {
        cell.unwrap_or_else(|| Cell::Text("–".to_owned()))
    }

    /// Whether a row has nothing here.
    fn is_dash(&self) -> bool {
        matches!(self, Cell::Text(text) if text == "–")
    }

    pub fn bar(value: f64, most: f64, look: &'static str) -> Cell {
        Cell::Bar(Bar { parts: vec![(part(value, most), look)], ..Bar::default() })
    }

    pub fn figure(text: String, value: f64) -> Cell {
        Cell::Figure(text, value, String::new())
    }

    pub fn count(value: u64) -> Cell {
        Cell::figure(count(value), value as f64)
    }

    /// A cell for a number that a result may lack, formatted by `write`.
    pub fn real(value: Option<f64>, write: fn(f64) -> String) -> Cell {
        Cell::or_dash(value.map(|value| Cell::figure(write(value), value)))
    }

    pub fn named(text: impl Into<String>, sub: impl Into<String>) -> Cell {
        Cell::Name(Name { text: text.into(), sub: sub.into(), tag: String::new() })
    }
}

/// A value as a fraction of the largest.
pub(crate) fn part(value: f64, most: f64) -> f64 {
    if most > 0.0 { value / most } else { 0.0 }
}
