//! Styled pieces of a terminal line: optional colours, widths in characters, and no control characters from a traced
//! program.

use crate::printable::shortened;
use std::fmt::Write;

/// The style of a piece of text.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Style {
    Plain,
    Strong,
    Quiet,
    Accent,
    Data,
    Fetch,
    Warning,
}

impl Style {
    /// Its code in the terminal's own palette, which follows the user's theme.
    fn code(self) -> &'static str {
        match self {
            Style::Plain => "",
            Style::Strong => "1",
            Style::Quiet => "2",
            Style::Accent => "1;36",
            Style::Data => "34",
            Style::Fetch => "33",
            Style::Warning => "31",
        }
    }
}

/// Text in one or more styles on one line.
#[derive(Clone, Default)]
pub(super) struct Line(Vec<(Style, String)>);

impl Line {
    pub fn new(style: Style, text: impl Into<String>) -> Line {
        Line(vec![(style, text.into())])
    }

    pub fn and(mut self, style: Style, text: impl Into<String>) -> Line {
        self.0.push((style, text.into()));
        self
    }

    pub fn width(&self) -> usize {
        self.0.iter().map(|(_, text)| text.chars().count()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|(_, text)| text.is_empty())
    }

    /// The line cut to `width` characters in its middle: the ends of a path say the most.
    pub fn fit(&self, width: usize) -> Line {
        if self.width() <= width {
            return self.clone();
        }
        let style = self.0.first().map_or(Style::Plain, |(style, _)| *style);
        Line::new(style, shortened(&self.text(), width))
    }

    /// The line wrapped to `width` characters at spaces, later lines indented.
    pub fn wrapped(&self, width: usize) -> Vec<Line> {
        const INDENT: usize = 2;
        if self.width() <= width {
            return vec![self.clone()];
        }
        let style = self.0.first().map_or(Style::Plain, |(style, _)| *style);
        let lines = wrap(&self.text(), width.saturating_sub(INDENT));
        let indent = |index: usize| " ".repeat(if index == 0 { 0 } else { INDENT });
        lines.iter().enumerate().map(|(index, line)| Line::new(style, indent(index) + line)).collect()
    }

    pub fn text(&self) -> String {
        self.0.iter().map(|(_, text)| text.as_str()).collect()
    }

    pub fn write(&self, out: &mut String, color: bool) {
        for (style, text) in &self.0 {
            if color && *style != Style::Plain && !text.is_empty() {
                write!(out, "\x1b[{}m{text}\x1b[0m", style.code()).expect("writes to a string succeed");
            } else {
                out.push_str(text);
            }
        }
    }
}

/// The text wrapped to `width` characters at spaces.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last_mut().expect("there is always a line");
        if last.is_empty() {
            last.push_str(word);
        } else if last.chars().count() + 1 + word.chars().count() <= width {
            last.push(' ');
            last.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// Cells of a bar.
const BAR_CELLS: usize = 16;

/// A bar whose length is the share of `data + fetch` in `whole`, its data part first. A share below half a cell gets a
/// thin stroke, so that it stays visible.
pub(super) fn bar(data: u64, fetch: u64, whole: u64) -> Line {
    let part = data + fetch;
    if part == 0 || whole == 0 {
        return Line::default();
    }
    let filled = ((part as f64 / whole as f64 * BAR_CELLS as f64).round() as usize).min(BAR_CELLS);
    if filled == 0 {
        return Line::new(if data >= fetch { Style::Data } else { Style::Fetch }, "▏");
    }
    let data_cells = (data as f64 / part as f64 * filled as f64).round() as usize;
    Line::new(Style::Data, "█".repeat(data_cells)).and(Style::Fetch, "▒".repeat(filled - data_cells))
}

/// A cell without emphasis.
pub(super) fn plain(text: impl Into<String>) -> Line {
    Line::new(Style::Plain, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(line: &Line) -> String {
        let mut out = String::new();
        line.write(&mut out, false);
        out
    }

    #[test]
    fn bars_show_small_parts_and_stay_in_their_cells() {
        assert_eq!(plain(&bar(50, 50, 100)), "████████▒▒▒▒▒▒▒▒");
        assert_eq!(plain(&bar(1, 0, 1_000_000)), "▏");
        assert_eq!(plain(&bar(10, 30, 80)), "██▒▒▒▒▒▒");
        assert_eq!(plain(&bar(0, 0, 100)), "");
    }

    #[test]
    fn wrapping_breaks_at_spaces() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("averylongword", 7), ["averylongword"]);
    }
}
