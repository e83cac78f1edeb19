//! Checks that anchors in links lead to headings.

use super::is_page;
use crate::markdown::{Kind, lines, pieces};
use crate::tidy::{Finding, Tree, links, resolve};
use std::collections::BTreeMap;

/// Checks that the part of a link after `#` is the anchor of a heading of the page, as GitHub derives anchors.
pub fn dead_anchor(tree: &Tree, findings: &mut Vec<Finding>) {
    for (path, text) in tree.files(is_page) {
        // If the text of a link is code, its target is in the prose that follows.
        for piece in pieces(text).into_iter().filter(|piece| !piece.is_code) {
            for (target, anchor) in links(&piece.text) {
                let Some(anchor) = anchor else { continue };
                let page = if target.is_empty() { path.to_owned() } else { resolve(path, target) };
                let Some(text) = tree.text(&page).filter(|_| page.ends_with(".md")) else { continue };
                if !anchors(text).contains_key(anchor) {
                    let message = format!("{page} has no heading `#{anchor}`");
                    findings.push(Finding {
                        path: path.to_owned(),
                        line: piece.line,
                        rule: "dead-anchor",
                        message,
                    });
                }
            }
        }
    }
}

/// The anchors of a text: of its headings, and those set by `<a id="…">`.
fn anchors(text: &str) -> BTreeMap<String, usize> {
    let mut anchors: BTreeMap<String, usize> = BTreeMap::new();
    for line in lines(text).filter(|line| line.kind == Kind::Prose) {
        for (at, mark) in line.text.match_indices("<a id=\"") {
            let name = line.text[at + mark.len()..].split('"').next().unwrap_or_default();
            anchors.insert(name.to_owned(), 1);
        }
        let title = line.text.trim_start_matches('#');
        let level = line.text.len() - title.len();
        if !(1..=6).contains(&level) || !title.starts_with(' ') {
            continue;
        }
        let name = anchor(title.trim());
        let seen = anchors.entry(name.clone()).or_default();
        *seen += 1;
        if let Some(earlier @ 1..) = seen.checked_sub(1) {
            anchors.insert(format!("{name}-{earlier}"), 1);
        }
    }
    anchors
}

/// The anchor of a heading: its text in lower case, with hyphens for spaces, without punctuation and link targets.
fn anchor(title: &str) -> String {
    let mut text = String::new();
    let mut rest = title;
    while let Some((before, after)) = rest.split_once("](") {
        text.push_str(before);
        rest = after.split_once(')').map_or("", |(_, after)| after);
    }
    text.push_str(rest);
    let kept = text.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_have_the_names_that_github_gives_them() {
        for (title, name) in [
            ("What the numbers mean", "what-the-numbers-mean"),
            ("`trace import`", "trace-import"),
            ("FreeBSD: reservations", "freebsd-reservations"),
            ("A, b & c", "a-b--c"),
            ("See [the guide](guide.md#top) first", "see-the-guide-first"),
            ("max_ptes_none", "max_ptes_none"),
            ("Größe", "größe"),
        ] {
            assert_eq!(anchor(title), name);
        }
    }

    #[test]
    fn links_lead_to_headings() {
        let guide = "# One\n\n## Two\n## Two\n\n```sh\n# no heading\n```\n<a id=\"own\"></a>\n#hash\n\
            [a](#one) [b](#two-1) [c](#own) [d](sub/page.md#top) [web](https://a.b/c.md#d) `[x](#y)`\n\
            [e](#three) [f](sub/page.md#gone)\n[g](#no-heading) [h](images/a.png#x)\n[i](gone.md#x) [j](#hash)\n";
        let page = "# Top\n\n[up](../guide.md#one) [down](../guide.md#down)\n";
        let mut tree = Tree::default();
        tree.add("docs/guide.md", guide);
        tree.add("docs/sub/page.md", page);
        let mut findings = Vec::new();
        dead_anchor(&tree, &mut findings);
        let places: Vec<String> =
            findings.iter().map(|found| format!("{}:{}", found.path, found.line)).collect();
        let all = ["docs/guide.md:12", "docs/guide.md:12", "docs/guide.md:13", "docs/guide.md:14"];
        assert_eq!(places[..4], all);
        assert_eq!(places[4..], ["docs/sub/page.md:3"]);
    }
}
