//! Tables of sections.

use crate::numbers::count;

/// Rows of cells under columns. The first column names the row.
#[derive(Default)]
pub(crate) struct Table {
    pub columns: Vec<Column>,
    pub rows: Vec<Row>,
    /// Labels below the first column of bars: where, as a part of it, and what.
    pub ticks: Vec<(f64, String)>,
    /// What a terminal says below it, where no lead says it: the first words as a warning.
    pub remarks: Vec<(&'static str, String)>,
    /// All rows are shown, in their order.
    pub is_whole: bool,
    /// What its rows are, for searching them; empty: nobody would.
    pub what: &'static str,
    /// The column by which its rows are in order, the highest first.
    pub sorted: Option<usize>,
    /// Rows that a page shows at first, where not as many as usual.
    pub first: Option<usize>,
}

/// A column of figures, or of words.
pub(crate) struct Column {
    pub title: String,
    /// In which order columns go where a terminal is too narrow, the highest first; 0: it stays.
    pub goes: u8,
    pub is_words: bool,
    pub only: Only,
}

/// Which renderers have a column.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Only {
    All,
    Pages,
    Terminals,
}

impl Column {
    pub fn stays(title: impl Into<String>) -> Column {
        Column::goes(title, 0)
    }

    pub fn goes(title: impl Into<String>, goes: u8) -> Column {
        Column { title: title.into(), goes, is_words: false, only: Only::All }
    }

    pub fn words(title: impl Into<String>, goes: u8) -> Column {
        Column { is_words: true, ..Column::goes(title, goes) }
    }

    pub fn on_pages(self) -> Column {
        Column { only: Only::Pages, ..self }
    }

    pub fn on_terminals(self) -> Column {
        Column { only: Only::Terminals, ..self }
    }
}

/// A row of a table.
pub(crate) struct Row {
    pub cells: Vec<Cell>,
    pub look: Look,
    /// What a page opens when the row is chosen.
    pub opens: Option<usize>,
}

impl Row {
    pub fn new(look: Look, cells: Vec<Cell>) -> Row {
        Row { cells, look, opens: None }
    }
}

impl From<Vec<Cell>> for Row {
    fn from(cells: Vec<Cell>) -> Row {
        Row::new(Look::Plain, cells)
    }
}

/// How a row looks.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Look {
    Plain,
    /// The row that the others are compared with, or the sum of them.
    Emphasised,
    /// What nothing can beat.
    Bound,
    /// Of little weight: a terminal shows it with `-v` only.
    Minor,
}

/// What stands in a row under a column.
pub(crate) enum Cell {
    Text(String),
    Name(Name),
    /// In words, what it is sorted by, and with smaller words below it.
    Figure(String, f64, String),
    /// The same with a small bar, whose length is a part of one.
    Price(String, f64, f64),
    /// The terminal leaves it out.
    Bar(Bar),
    /// Walks by data references and by fetches, as the lengths of bars that are parts of a number of walks.
    Walks {
        data: u64,
        fetch: u64,
        of: u64,
    },
}

/// A name with what pages say beside it.
#[derive(Default)]
pub(crate) struct Name {
    pub text: String,
    /// The class of the row's figures, where it is not that of the table.
    pub tag: String,
    /// Smaller words below it.
    pub sub: String,
}

/// A bar.
#[derive(Default)]
pub(crate) struct Bar {
    /// Its pieces: lengths as parts of one, in a style of pages.
    pub parts: Vec<(f64, &'static str)>,
    /// A dashed line, for all rows at one place.
    pub mark: Option<f64>,
    /// Whether it would be longer than drawn.
    pub is_cut: bool,
    /// Smaller words below it.
    pub sub: String,
}

impl Cell {
    pub fn or_dash(cell: Option<Cell>) -> Cell {
        cell.unwrap_or_else(|| Cell::Text("–".to_owned()))
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

    /// What it is written by, of what a result may lack.
    pub fn real(value: Option<f64>, write: fn(f64) -> String) -> Cell {
        Cell::or_dash(value.map(|value| Cell::figure(write(value), value)))
    }

    pub fn named(text: impl Into<String>, sub: impl Into<String>) -> Cell {
        Cell::Name(Name { text: text.into(), sub: sub.into(), tag: String::new() })
    }
}

/// A value as a part of the most that any has.
pub(crate) fn part(value: f64, most: f64) -> f64 {
    if most > 0.0 { value / most } else { 0.0 }
}
