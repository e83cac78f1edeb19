//! Checks the line width of documentation pages.

use super::{Finding, Tree};
use crate::markdown::{COLUMNS_MAX, Kind, lines};

/// Checks that lines of prose in Markdown fit into [`COLUMNS_MAX`] columns. Code, tables and lines with only a link are
/// exempt.
pub fn doc_width(tree: &Tree, findings: &mut Vec<Finding>) {
    for (path, text) in tree.files(|path| path.ends_with(".md")) {
        let prose = lines(text).filter(|line| line.kind == Kind::Prose && !is_one_link(line.text));
        for line in prose {
            let columns = line.text.chars().count();
            if columns > COLUMNS_MAX {
                let message = format!("{columns} columns; at most {COLUMNS_MAX}");
                let (path, line) = (path.to_owned(), line.number);
                findings.push(Finding { path, line, rule: "doc-width", message });
            }
        }
    }
}

/// Whether a line has only one link or picture, in a list item or not: no line break can make it shorter.
fn is_one_link(line: &str) -> bool {
    let item = line.trim().trim_start_matches(['-', '*', '+', '>', ' ']);
    let item = item.trim_end_matches(['.', ',', ';', ':']);
    let is_address = |text: &str| {
        let text = text.trim_start_matches('<');
        ["http://", "https://"].iter().any(|scheme| text.starts_with(scheme)) && !text.contains(' ')
    };
    // `[name]: target`, and `[text](target)` at the end of the line.
    let is_definition =
        item.starts_with('[') && item.split_once("]: ").is_some_and(|(_, to)| !to.contains(' '));
    let is_link = item.trim_start_matches('!').starts_with('[')
        && item.find(')').is_some_and(|end| end + 1 == item.len());
    is_address(item) || is_definition || is_link
}

#[cfg(test)]
mod tests {
    use super::super::tests::places;
    use super::*;

    #[test]
    fn lines_of_prose_end_at_the_limit() {
        let (fits, wide) = ("µ".repeat(COLUMNS_MAX), "x ".repeat(COLUMNS_MAX));
        let text = format!("{fits}\n{wide}\n\n- {wide}\n# {wide}\n");
        let all = ["docs/a/b.md:2", "docs/a/b.md:4", "docs/a/b.md:5"];
        assert_eq!(places(doc_width, &[("docs/a/b.md", &text), ("a.txt", &wide)]), all);
    }

    #[test]
    fn what_cannot_be_wrapped_may_be_wide() {
        let wide = "x ".repeat(COLUMNS_MAX);
        let path = "x".repeat(COLUMNS_MAX);
        for fine in [
            format!("```\n{wide}\n```\n"),
            format!("a\n\n    {wide}\n"),
            format!("| {wide} |\n"),
            format!("- [{wide}](a.md),\n"),
            format!("![{wide}]({path}.png)\n"),
            format!("<https://{path}>\n"),
            format!("[a]: https://{path}\n"),
        ] {
            assert!(places(doc_width, &[("docs/a/b.md", &fine)]).is_empty(), "{fine}");
        }
        for wrong in [format!("[a]({path}.md) and [b](c.md)\n"), format!("[a](b.md) {wide}\n")] {
            assert_eq!(places(doc_width, &[("docs/a/b.md", &wrong)]), ["docs/a/b.md:1"], "{wrong}");
        }
    }
}
