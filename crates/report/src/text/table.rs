//! Tables for the terminal: aligned columns that fit a given width.

use super::paint::{Line, Style};

/// The alignment of a column.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Align {
    Left,
    /// Right; numbers without a unit suffix leave two places free, so that digits align.
    Number,
}

/// How a column narrows when the table is too wide.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum WhenNarrow {
    /// It stays.
    Keep,
    /// Its text is cut in its middle: to [`COMFORTABLE`] characters before any column is dropped, to [`SHORTEST`] when
    /// none is left to drop.
    Shrink,
    /// Its text wraps at spaces, once no column is left to drop.
    Wrap,
    /// It is dropped, the highest number first.
    Drop(u8),
}

const COMFORTABLE: usize = 30;
const SHORTEST: usize = 12;
const GAP: usize = 2;
const INDENT: usize = 2;

pub(super) struct Column {
    pub title: Line,
    pub align: Align,
    pub narrow: WhenNarrow,
}

/// A column of names that shrinks.
pub(super) fn names(title: &str) -> Column {
    Column { title: Line::new(Style::Strong, title), align: Align::Left, narrow: WhenNarrow::Shrink }
}

/// A column of sentences.
pub(super) fn sentences(title: &str) -> Column {
    Column { narrow: WhenNarrow::Wrap, ..names(title) }
}

/// A column of numbers.
pub(super) fn numbers(title: &str, narrow: WhenNarrow) -> Column {
    Column { title: Line::new(Style::Quiet, title), align: Align::Number, narrow }
}

/// A column of text.
pub(super) fn texts(title: &str, narrow: WhenNarrow) -> Column {
    Column { title: Line::new(Style::Quiet, title), align: Align::Left, narrow }
}

/// A column of [`bar`](super::paint::bar)s.
pub(super) fn walks(narrow: WhenNarrow) -> Column {
    let title = Line::new(Style::Data, "█ data ").and(Style::Fetch, "▒ fetch");
    Column { title, align: Align::Left, narrow }
}

pub(super) struct Table {
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<Line>>,
}

impl Table {
    pub fn new(columns: Vec<Column>) -> Table {
        Table { columns, rows: Vec::new() }
    }

    pub fn row(&mut self, cells: Vec<Line>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }

    /// Appends the table's lines, each of at most `width` characters unless the kept columns are wider. What found
    /// no room is returned: `Kernel (promotions, memory)`.
    pub fn write(mut self, out: &mut String, width: usize, color: bool) -> Option<String> {
        self.align_digits();
        self.drop_empty_columns();
        let figures = self.figures();
        let widths = self.fit(width);
        if self.columns.iter().any(|column| !column.title.is_empty()) {
            let titles: Vec<Line> = self.columns.iter().map(|column| column.title.clone()).collect();
            self.write_row(&titles, &widths, out, color);
        }
        for row in &self.rows {
            for line in self.lines(row, &widths) {
                self.write_row(&line, &widths, out, color);
            }
        }
        let kept = self.figures();
        let left_out: Vec<String> = figures.into_iter().filter(|title| !kept.contains(title)).collect();
        let table = self.columns.first().map_or(String::new(), |column| column.title.text());
        // Tables of several machines are called alike.
        let table = table.split(" on ").next().unwrap_or_default();
        (!left_out.is_empty()).then(|| match table {
            "" => left_out.join(", "),
            table => format!("{table} ({})", left_out.join(", ")),
        })
    }

    /// The titles of columns of figures.
    fn figures(&self) -> Vec<String> {
        let figures = self.columns.iter().filter(|column| column.align == Align::Number);
        figures.filter(|column| !column.title.is_empty()).map(|column| column.title.text()).collect()
    }

    /// The lines of a row: as many as its longest sentence takes.
    fn lines(&self, row: &[Line], widths: &[usize]) -> Vec<Vec<Line>> {
        let cells = row.iter().zip(widths).zip(&self.columns);
        let parts: Vec<Vec<Line>> = cells
            .map(|((cell, &width), column)| match column.narrow {
                WhenNarrow::Wrap => cell.wrapped(width),
                _ => vec![cell.clone()],
            })
            .collect();
        let count = parts.iter().map(Vec::len).max().unwrap_or(1);
        let line =
            |index: usize| parts.iter().map(|part| part.get(index).cloned().unwrap_or_default()).collect();
        (0..count).map(line).collect()
    }

    fn align_digits(&mut self) {
        for (index, column) in self.columns.iter().enumerate() {
            if column.align != Align::Number {
                continue;
            }
            let suffixed = self.rows.iter().any(|row| has_suffix(&row[index]));
            for cell in self.rows.iter_mut().map(|row| &mut row[index]) {
                if suffixed && !cell.is_empty() && !has_suffix(cell) {
                    *cell = std::mem::take(cell).and(Style::Plain, "  ");
                }
            }
        }
    }

    fn drop_empty_columns(&mut self) {
        for index in (0..self.columns.len()).rev() {
            if self.rows.iter().all(|row| row[index].is_empty()) {
                self.remove(index);
            }
        }
    }

    fn remove(&mut self, index: usize) {
        self.columns.remove(index);
        for row in &mut self.rows {
            row.remove(index);
        }
    }

    fn widths(&self) -> Vec<usize> {
        self.columns
            .iter()
            .enumerate()
            .map(|(index, column)| {
                self.rows.iter().map(|row| row[index].width()).fold(column.title.width(), usize::max)
            })
            .collect()
    }

    fn fit(&mut self, width: usize) -> Vec<usize> {
        loop {
            if let Some(widths) = self.shrunk(width, COMFORTABLE, usize::MAX) {
                return widths;
            }
            let droppable =
                self.columns.iter().enumerate().filter_map(|(index, column)| match column.narrow {
                    WhenNarrow::Drop(order) => Some((order, index)),
                    WhenNarrow::Keep | WhenNarrow::Shrink | WhenNarrow::Wrap => None,
                });
            match droppable.max() {
                Some((_, index)) => self.remove(index),
                None => return self.shrunk(width, SHORTEST, SHORTEST).unwrap_or_else(|| self.widths()),
            }
        }
    }

    /// The columns' widths, if cutting names to `shortest` and sentences to `shortest_sentence` makes them fit.
    fn shrunk(&self, width: usize, shortest: usize, shortest_sentence: usize) -> Option<Vec<usize>> {
        let mut widths = self.widths();
        let total = INDENT + widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1);
        let mut excess = total.saturating_sub(width);
        for (index, column) in self.columns.iter().enumerate() {
            let shortest = match column.narrow {
                WhenNarrow::Shrink => shortest,
                WhenNarrow::Wrap => shortest_sentence,
                WhenNarrow::Keep | WhenNarrow::Drop(_) => continue,
            };
            let give = widths[index].saturating_sub(shortest).min(excess);
            widths[index] -= give;
            excess -= give;
        }
        (excess == 0).then_some(widths)
    }

    fn write_row(&self, cells: &[Line], widths: &[usize], out: &mut String, color: bool) {
        let start = out.len();
        out.push_str(&" ".repeat(INDENT));
        let mut pending = 0;
        for (index, (cell, width)) in cells.iter().zip(widths).enumerate() {
            let cell = cell.fit(*width);
            let space = width - cell.width();
            let before = if self.columns[index].align == Align::Number { space } else { 0 };
            pending += before;
            if !cell.is_empty() {
                out.push_str(&" ".repeat(pending));
                pending = 0;
                cell.write(out, color);
            }
            pending += space - before + GAP;
        }
        let trimmed = out.trim_end_matches(' ').len().max(start);
        out.truncate(trimmed);
        out.push('\n');
    }
}

/// Whether a number ends in a unit, as in `1.23 M`, `7 %`.
fn has_suffix(cell: &Line) -> bool {
    let mut text = String::new();
    cell.write(&mut text, false);
    text.contains(' ') || text == "–"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(vec![
            names("Name"),
            numbers("walks", WhenNarrow::Keep),
            texts("note", WhenNarrow::Drop(1)),
        ]);
        table.row(vec![
            Line::new(Style::Plain, "/usr/lib/x86_64-linux-gnu/libc.so.6"),
            Line::new(Style::Plain, "1.23 M"),
            Line::new(Style::Plain, "a remark"),
        ]);
        table.row(vec![Line::new(Style::Plain, "[heap]"), Line::new(Style::Plain, "987"), Line::default()]);
        table
    }

    #[test]
    fn digits_stand_under_digits() {
        let mut out = String::new();
        table().write(&mut out, 80, false);
        assert_eq!(
            out,
            "  Name                                  walks  note\n\
             \x20 /usr/lib/x86_64-linux-gnu/libc.so.6  1.23 M  a remark\n\
             \x20 [heap]                                987\n"
        );
    }

    #[test]
    fn narrow_tables_shrink_names_then_drop_columns_then_shrink_more() {
        let at = |width| {
            let mut out = String::new();
            table().write(&mut out, width, false);
            out
        };
        assert!(at(52).contains("  /usr/lib/x…4-linux-gnu/libc.so.6  1.23 M  a remark\n"), "{}", at(52));
        assert!(
            !at(46).contains("remark") && at(46).contains("/usr/lib/x86_64-linux-gnu/libc.so.6"),
            "{}",
            at(46)
        );
        assert!(at(24).contains("  /usr…libc.so.6  1.23 M\n"), "{}", at(24));
    }

    #[test]
    fn figures_without_room_are_returned() {
        let left_out = |width| {
            let mut table = table();
            table.columns.push(numbers("ratio", WhenNarrow::Drop(2)));
            table.rows.iter_mut().for_each(|row| row.push(Line::new(Style::Plain, "0.5")));
            table.write(&mut String::new(), width, false)
        };
        assert_eq!((left_out(100), left_out(52)), (None, Some("Name (ratio)".to_owned())));
    }

    #[test]
    fn sentences_stay_whole_while_a_column_can_go_and_then_wrap() {
        let mut rows = table().rows;
        rows[0][0] = Line::new(Style::Plain, "huge pages wherever Linux gives them");
        let at = |width| {
            let mut out = String::new();
            let columns =
                [sentences("Name"), numbers("walks", WhenNarrow::Keep), texts("note", WhenNarrow::Drop(1))];
            Table { columns: columns.into(), rows: rows.clone() }.write(&mut out, width, false);
            out
        };
        assert!(at(60).contains("  huge pages wherever Linux gives them  1.23 M  a remark\n"), "{}", at(60));
        assert!(at(50).contains("  huge pages wherever Linux gives them  1.23 M\n"), "{}", at(50));
        assert_eq!(
            at(34),
            "  Name                       walks\n\
             \x20 huge pages wherever       1.23 M\n\
             \x20   Linux gives them\n\
             \x20 [heap]                     987\n"
        );
    }
}
