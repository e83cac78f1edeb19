//! What of a Markdown text is prose, and what is code.

/// A line of a Markdown text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Its number, from 1.
    pub number: usize,
    pub text: &'a str,
    pub kind: Kind,
}

/// What a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Prose,
    /// A row of a table.
    Table,
    /// Inside a block of code, between fences or indented.
    Code,
    /// Above or below a block of code.
    Fence,
}

/// The lines of a text, each as what it is.
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
        // A blank line does not end code that is indented.
        in_indented = is_indented || in_indented && is_blank;
        after_blank = is_blank;
        Line { number: index + 1, text, kind }
    })
}

/// Whether a line begins an item of a list.
fn is_item(line: &str) -> bool {
    let digits = line.trim_start_matches(|c: char| c.is_ascii_digit());
    ["- ", "* ", "+ "].iter().any(|mark| line.starts_with(mark))
        || digits.len() < line.len() && (digits.starts_with(". ") || digits.starts_with(") "))
}

/// The spans of code of a line of prose or of a table: what stands between backticks.
pub fn spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
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
    fn spans_stand_between_backticks() {
        assert_eq!(spans("a `b c` d `e`").collect::<Vec<_>>(), ["b c", "e"]);
    }
}
