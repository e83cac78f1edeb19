//! `cargo xtask docs`: generates reference pages, and the stub of metrics for Python, from the program's help and the
//! source tree, and checks the pages that people write.
//!
//! A page is a function from the help texts to text; a check is a function from help texts and tree to findings.
//! Neither starts the program, so tests can pass a help text of five lines.

mod anchors;
mod commands;
mod machines;
mod metrics;
mod program;
mod stubs;
mod words;

use crate::tidy::{Finding, Tree};
use commands::Commands;
use program::Program;
use std::path::Path;

/// The folder of the generated pages.
const FOLDER: &str = "docs/reference";

/// A generated page.
struct Page {
    path: String,
    text: String,
}

impl Page {
    fn new(name: &str, source: &str, text: &str) -> Page {
        let head = format!("<!-- `cargo xtask docs` makes this page from {source}. -->\n\n");
        Page { path: format!("{FOLDER}/{name}.md"), text: head + text.trim_end() + "\n" }
    }
}

/// Writes the generated pages that are out of date; returns their paths.
///
/// # Errors
/// If the program cannot be built or run, or a file cannot be written.
pub fn write(root: &Path, program: Option<&Path>) -> Result<Vec<String>, String> {
    let tree = read(root)?;
    let (_, pages) = pages(root, program, &tree)?;
    let mut written = Vec::new();
    for page in pages.into_iter().filter(|page| tree.text(&page.path) != Some(&page.text)) {
        let path = root.join(&page.path);
        let saved =
            std::fs::create_dir_all(root.join(FOLDER)).and_then(|()| std::fs::write(&path, page.text));
        saved.map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        written.push(page.path);
    }
    Ok(written)
}

/// Finds generated pages that are out of date, and names in written pages that do not exist; sorted by place.
///
/// # Errors
/// If the program cannot be built or run.
pub fn check(root: &Path, program: Option<&Path>) -> Result<Vec<Finding>, String> {
    let tree = read(root)?;
    let (commands, pages) = pages(root, program, &tree)?;
    let mut findings: Vec<Finding> = pages.iter().filter_map(|page| stale(&tree, page)).collect();
    words::commands_and_flags(&tree, &commands, &mut findings);
    let registry = pages.iter().find(|page| page.path.ends_with("/metrics.md"));
    metrics::unknown_metric(&tree, registry.map_or("", |page| &page.text), &mut findings);
    anchors::dead_anchor(&tree, &mut findings);
    findings.sort();
    Ok(findings)
}

fn read(root: &Path) -> Result<Tree, String> {
    Tree::read(root).map_err(|error| format!("cannot read {}: {error}", root.display()))
}

/// The commands and the generated pages, from the program, which is built unless a path is given.
fn pages(root: &Path, program: Option<&Path>, tree: &Tree) -> Result<(Commands, Vec<Page>), String> {
    let program = program.map_or_else(|| Program::build(root), Program::built)?;
    let commands = Commands::read(|words| program.says(words))?;
    let metrics = program.says(&["schema", "metrics"])?;
    let pages = vec![
        Page::new("commands", "what `--help` of each command prints", &commands.page()),
        Page::new("machines", "the files in machines/", &machines::page(tree)?),
        Page::new("metrics", "`pagewalk schema metrics`", &metrics),
        Page { path: stubs::PATH.to_owned(), text: stubs::stub(&metrics) },
        Page::new("policies", "`pagewalk schema policies`", &program.says(&["schema", "policies"])?),
    ];
    Ok((commands, pages))
}

/// The first line in which the stored page differs from the generated one.
fn stale(tree: &Tree, page: &Page) -> Option<Finding> {
    let written = tree.text(&page.path).unwrap_or_default();
    if written == page.text {
        return None;
    }
    let line = written.lines().zip(page.text.lines()).take_while(|(written, now)| written == now).count();
    let message = "not current: `cargo xtask docs` writes it anew".to_owned();
    Some(Finding { path: page.path.clone(), line: line + 1, rule: "stale-page", message })
}

/// Whether a path is a written page of the user documentation.
fn is_page(path: &str) -> bool {
    path == "README.md" || path.starts_with("docs/") && path.ends_with(".md")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_is_not_current_is_found_where_it_differs() {
        let page = Page::new("one", "nothing", "# One\n\nnew\n");
        assert!(
            page.text.starts_with("<!-- `cargo xtask docs` makes this page from nothing. -->\n\n# One\n")
        );
        let mut tree = Tree::default();
        let line = |tree: &Tree| stale(tree, &page).map(|finding| finding.line);
        assert_eq!(line(&tree), Some(1));
        tree.add("docs/reference/one.md", page.text.replace("new", "old"));
        assert_eq!(line(&tree), Some(5));
        tree.add("docs/reference/one.md", page.text.clone());
        assert_eq!(line(&tree), None);
    }

    #[test]
    fn pages_are_the_readme_and_docs() {
        for path in ["README.md", "docs/a.md", "docs/reference/b.md"] {
            assert!(is_page(path), "{path}");
        }
        for path in ["CHANGELOG.md", "crates/a/docs/b.md", "docs/images/c.png"] {
            assert!(!is_page(path), "{path}");
        }
    }
}
