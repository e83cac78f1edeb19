//! Checks that every file mentioned in the documentation exists.

use super::{Finding, Tree, numbered};

/// Folders whose paths are checked when they appear between backticks.
const FOLDERS: [&str; 10] = [
    "benches/",
    "crates/",
    "docs/",
    "fuzz/",
    "machines/",
    "scripts/",
    "studies/",
    "tests/",
    "xtask/",
    ".ci/",
];

/// Checks that links in Markdown, and paths between backticks in Markdown and in the comments of the crates' sources,
/// lead to files or folders of the repository.
pub fn dead_link(tree: &Tree, findings: &mut Vec<Finding>) {
    for (path, text) in tree.files(|path| path.ends_with(".md") || path.starts_with("crates/")) {
        let markdown = path.ends_with(".md");
        for (line, content) in numbered(text) {
            let links = if markdown { link_targets(content) } else { Vec::new() };
            let quoted = if markdown || content.trim_start().starts_with("//") {
                quoted_paths(content)
            } else {
                Vec::new()
            };
            let dead = links.into_iter().filter(|target| !tree.holds(&resolve(path, target))).chain(
                quoted
                    .into_iter()
                    .filter(|target| !tree.holds(target) && !tree.holds(&resolve(path, target))),
            );
            for target in dead {
                let message = format!("`{target}` does not exist");
                findings.push(Finding { path: path.to_owned(), line, rule: "dead-link", message });
            }
        }
    }
}

/// Local targets of `[text](target#anchor)`, each with its anchor, if it has one. The target of a link within a page is
/// empty.
pub fn links(line: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    let targets = line.match_indices("](").filter_map(|(at, _)| line[at + 2..].split([')', ' ']).next());
    let parts = targets.map(|target| match target.split_once('#') {
        Some((target, anchor)) => (target, Some(anchor)),
        None => (target, None),
    });
    parts.filter(|(target, _)| !target.contains(':'))
}

/// Files and folders that a line of Markdown links to.
fn link_targets(line: &str) -> Vec<&str> {
    links(line).map(|(target, _)| target).filter(|target| !target.is_empty()).collect()
}

/// Paths between backticks that begin with one of [`FOLDERS`] and name one file or folder (no wildcards).
fn quoted_paths(line: &str) -> Vec<&str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    line.split('`')
        .skip(1)
        .step_by(2)
        .filter(|quoted| {
            FOLDERS.iter().any(|folder| quoted.starts_with(folder)) && quoted.chars().all(is_plain)
        })
        .collect()
}

/// Resolves `target` relative to the file `from`; returns a path from the root.
pub fn resolve(from: &str, target: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => _ = parts.pop(),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::super::tests::places;
    use super::*;

    #[test]
    fn links_lead_somewhere() {
        let guide = "[up](../README.md) [here](format.md#top) [web](https://example.org/x.md) [a](#anchor)\n\
                     ![picture](images/none.png)\n[far](../../x.md) [two](gone.md) [fine](format.md)\n";
        let files = [("README.md", ""), ("docs/format.md", ""), ("docs/guide.md", guide)];
        assert_eq!(places(dead_link, &files), ["docs/guide.md:2", "docs/guide.md:3", "docs/guide.md:3"]);
    }

    #[test]
    fn quoted_paths_lead_somewhere() {
        let readme = "`docs/guide.md` `docs/` `machines/*.toml` `docs/none.md` `cargo run`\n";
        let source = "//! See `docs/none.md`.\nlet x = \"`docs/none.md`\";\n";
        let files = [("README.md", readme), ("docs/guide.md", ""), ("crates/sim/src/lib.rs", source)];
        assert_eq!(places(dead_link, &files), ["README.md:1", "crates/sim/src/lib.rs:1"]);
        let beside =
            [("crates/capture/wire.md", "`engines/x.c` `tests/a.rs`"), ("crates/capture/tests/a.rs", "")];
        assert!(places(dead_link, &beside).is_empty());
    }
}
