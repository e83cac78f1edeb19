//! Splits Markdown into prose and code.

/// Maximum width of a line of prose.
pub const COLUMNS_MAX: usize = 100;

/// A line of a Markdown text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Line number, from 1.
    pub number: usize,
    pub text: &'a str,
    pub kind: Kind,
}

/// The kind of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Prose,
    /// A row of a table.
    Table,
    /// Inside a block of code, between fences or indented.
    Code,
    /// The fence above or below a block of code.
    Fence,
}

/// The lines of a text with their kinds.
pub fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    let mut fence: Option<&str> = None;
    let mut in_list = false;
    let (mut after_blank, mut in_indented) = (true, false);
    text.lines().enumerate().map(move |(index, text)| {
        let trimmed = text.trim_start();
        let marks = ["```", "~~~"].into_iter().find(|marks| trimmed.starts_with(marks));
        let is_blank = trimmed.is_empty();
        if !is_blank && !text.starts_with(' ') {
            in_list = is_item(trimmed);
        }
        let is_indented = text.starts_with("    ") && !in_list && (after_blank || in_indented);
        let kind = match (fence, marks) {
            (Some(open), Some(marks)) if open == marks => {
                fence = None;
                Kind::Fence
            }
            (Some(_), _) => Kind::Code,
            (None, Some(marks)) => {
                fence = Some(marks);
                Kind::Fence
            }
            (None, None) if is_indented => Kind::Code,
            (None, None) if trimmed.starts_with('|') => Kind::Table,
            (None, None) => Kind::Prose,
        };
        // A blank line does not end an indented block of code.
        in_indented = is_indented || in_indented && is_blank;
        after_blank = is_blank;
        Line { number: index + 1, text, kind }
    })
}

/// Whether a line begins a list item.
fn is_item(line: &str) -> bool {
    let digits = line.trim_start_matches(|c: char| c.is_ascii_digit());
    ["- ", "* ", "+ "].iter().any(|mark| line.starts_with(mark))
        || digits.len() < line.len() && (digits.starts_with(". ") || digits.starts_with(") "))
}

/// A piece of prose or of a table: a code span, or the text between code spans on one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The line on which it begins, from 1.
    pub line: usize,
    pub text: String,
    pub is_code: bool,
}

/// Splits prose and tables into pieces. A code span may continue on the next line of a paragraph.
pub fn pieces(text: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut paragraph: Vec<Line<'_>> = Vec::new();
    for line in lines(text) {
        let goes_on = line.kind == Kind::Prose && !line.text.trim().is_empty();
        if !goes_on {
            cut(&std::mem::take(&mut paragraph), &mut pieces);
        }
        match line.kind {
            Kind::Prose if goes_on => paragraph.push(line),
            Kind::Table => cut(&[line], &mut pieces),
            _ => {}
        }
    }
    cut(&paragraph, &mut pieces);
    pieces
}

/// Splits a paragraph at its code spans: a span is closed by as many backticks as opened it.
fn cut(paragraph: &[Line<'_>], pieces: &mut Vec<Piece>) {
    let Some(first) = paragraph.first() else { return };
    let text = paragraph.iter().map(|line| line.text).collect::<Vec<_>>().join("\n");
    let line_at = |at: usize| first.number + text[..at].matches('\n').count();
    let prose = |from: usize, to: usize, pieces: &mut Vec<Piece>| {
        for (below, part) in text[from..to].split('\n').enumerate().filter(|(_, part)| !part.is_empty()) {
            pieces.push(Piece { line: line_at(from) + below, text: part.to_owned(), is_code: false });
        }
    };
    let (mut done, mut at) = (0, 0);
    while let Some((open, marks)) = ticks(&text, at) {
        at = open + marks;
        let mut search = at;
        while let Some((close, count)) = ticks(&text, search) {
            search = close + count;
            if count == marks {
                prose(done, open, pieces);
                let words: Vec<&str> = text[at..close].split('\n').map(str::trim).collect();
                pieces.push(Piece { line: line_at(open), text: words.join(" "), is_code: true });
                (done, at) = (search, search);
                break;
            }
        }
    }
    prose(done, text.len(), pieces);
}

/// The position of the next backticks, and their number.
fn ticks(text: &str, from: usize) -> Option<(usize, usize)> {
    let at = from + text[from..].find('`')?;
    let count = text[at..].bytes().take_while(|byte| *byte == b'`').count();
    Some((at, count))
}

/// Wraps a paragraph to [`COLUMNS_MAX`] columns; lines after the first start with `indentation`.
pub fn wrapped(indentation: &str, paragraph: &str) -> String {
    let mut text = String::new();
    let mut columns = 0;
    for word in paragraph.split_whitespace() {
        let width = word.chars().count();
        if columns > 0 && columns + 1 + width > COLUMNS_MAX {
            text.push('\n');
            text.push_str(indentation);
            columns = indentation.len();
        } else if columns > 0 {
            text.push(' ');
            columns += 1;
        }
        text.push_str(word);
        columns += width;
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_what_they_are() {
        use Kind::{Code, Fence, Prose, Table};
        let text =
            "a\n```sh\n| b\n~~~\n```\n| c |\n\n    d\n\n    e\nf\n    g\n\n- h\n\n    i\n10. j\n\n    k\n";
        let kinds: Vec<Kind> = lines(text).map(|line| line.kind).collect();
        let all = [
            Prose, Fence, Code, Code, Fence, Table, Prose, Code, Prose, Code, Prose, Prose, Prose, Prose,
            Prose, Prose, Prose, Prose, Prose,
        ];
        assert_eq!(kinds, all);
    }

    #[test]
    fn spans_may_go_on_below_within_a_paragraph() {
        let text = "a `b\nc` d\n``e ` f`` ` g\n\n`h | i\n| `j` |\n```\n`k`\n```\n";
        let found: Vec<String> = pieces(text)
            .iter()
            .map(|piece| format!("{}{}{}", piece.line, if piece.is_code { "`" } else { ":" }, piece.text))
            .collect();
        assert_eq!(found, ["1:a ", "1`b c", "2: d", "3`e ` f", "3: ` g", "5:`h | i", "6:| ", "6`j", "6: |"]);
    }

    #[test]
    fn paragraphs_are_wrapped() {
        let text = wrapped("  ", &"word ".repeat(40));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.iter().map(|line| line.len()).collect::<Vec<_>>(), [99, 96, 6]);
        assert!(lines[1].starts_with("  word") && text.ends_with("word\n"));
    }
}
