//! The project's rules as automatic checks.
//!
//! A rule is a function from the text of the tree to findings; there is one file per subject. Rules do not read the
//! disk, so tests can pass a tree of two lines.

mod crates;
mod docs;
mod links;
mod modules;
mod structs;
mod text;
mod tokens;
mod words;

pub use links::{links, resolve};

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::Path;

/// One violation of a rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Path from the repository's root.
    pub path: String,
    /// Line, from 1.
    pub line: usize,
    /// The rule's name.
    pub rule: &'static str,
    /// What is wrong, and what the rule expects.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: [{}] {}", self.path, self.line, self.rule, self.message)
    }
}

/// Runs every rule; findings come sorted by place.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let rules: [fn(&Tree, &mut Vec<Finding>); 16] = [
        crates::layering,
        crates::architecture_names,
        modules::module_circle,
        structs::struct_fields,
        text::file_length,
        text::function_length,
        text::line_width,
        text::library_output,
        text::library_unwrap,
        text::machine_path,
        text::told_skip,
        text::unfinished,
        links::dead_link,
        words::module_noun,
        words::vocabulary,
        docs::doc_width,
    ];
    let mut findings = Vec::new();
    for rule in rules {
        rule(tree, &mut findings);
    }
    findings.sort();
    findings
}

/// The files of the repository, by path relative to its root, with `/` between folders.
#[derive(Debug, Default)]
pub struct Tree {
    files: BTreeMap<String, String>,
    /// Files that are not text written by people (pictures, traces): only their paths are known.
    binary: Vec<String>,
}

impl Tree {
    /// Folders with built or downloaded files.
    const SKIPPED: [&'static str; 5] = ["target", ".git", "node_modules", "corpus", "artifacts"];
    /// Files that identify a target folder of cargo, whatever its name. Cargo writes the first one only into folders
    /// that it created itself.
    const CARGOS: [&'static str; 2] = ["CACHEDIR.TAG", ".rustc_info.json"];
    /// Maximum bytes of a file written by people. A trace in the checkout can be many times larger than memory.
    const BYTES_MAX: u64 = 4 << 20;

    /// Reads the tree from disk.
    pub fn read(root: &Path) -> io::Result<Tree> {
        let mut tree = Tree::default();
        tree.read_folder(root, "")?;
        Ok(tree)
    }

    fn read_folder(&mut self, folder: &Path, prefix: &str) -> io::Result<()> {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            let kind = entry.file_type()?;
            // In a linked worktree, `.git` is a file.
            if Tree::SKIPPED.contains(&name.as_str()) {
                continue;
            }
            if kind.is_dir() {
                let folder = entry.path();
                let is_cargos = Tree::CARGOS.iter().any(|file| folder.join(file).exists());
                if !is_cargos {
                    self.read_folder(&folder, &format!("{path}/"))?;
                }
            } else if kind.is_file() && entry.metadata()?.len() > Tree::BYTES_MAX {
                self.binary.push(path);
            } else if kind.is_file() {
                match String::from_utf8(std::fs::read(entry.path())?) {
                    Ok(text) => self.add(path, text),
                    Err(_) => self.binary.push(path),
                }
            }
        }
        Ok(())
    }

    /// Adds a file, as if it had been read from disk.
    pub fn add(&mut self, path: impl Into<String>, text: impl Into<String>) {
        self.files.insert(path.into(), text.into());
    }

    /// Number of files.
    pub fn len(&self) -> usize {
        self.files.len() + self.binary.len()
    }

    /// The text of a file.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// The text files whose path `wanted` accepts.
    pub fn files<'a>(
        &'a self,
        wanted: impl Fn(&str) -> bool + 'a,
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.files
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
            .filter(move |(path, _)| wanted(path))
    }

    /// Whether a file or a folder with this path exists.
    fn holds(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let folder = format!("{path}/");
        path.is_empty()
            || self.files.keys().chain(&self.binary).any(|file| file == path || file.starts_with(&folder))
    }
}

/// The lines of a text with their numbers, from 1.
fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(index, line)| (index + 1, line))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The places that a rule reports in these files.
    pub(super) fn places(rule: fn(&Tree, &mut Vec<Finding>), files: &[(&str, &str)]) -> Vec<String> {
        let mut tree = Tree::default();
        for &(path, text) in files {
            tree.add(path, text);
        }
        let mut findings = Vec::new();
        rule(&tree, &mut findings);
        findings.sort();
        findings.iter().map(|finding| format!("{}:{}", finding.path, finding.line)).collect()
    }

    #[test]
    fn a_finding_names_place_and_rule() {
        let finding =
            Finding { path: "a/b.rs".into(), line: 7, rule: "line-width", message: "111 columns".into() };
        assert_eq!(finding.to_string(), "a/b.rs:7: [line-width] 111 columns");
    }

    #[test]
    fn folders_and_binary_files_exist_too() {
        let mut tree = Tree::default();
        tree.add("docs/guide.md", "");
        tree.binary.push("docs/images/report.png".into());
        for path in ["docs", "docs/", "docs/guide.md", "docs/images/report.png", ""] {
            assert!(tree.holds(path), "{path}");
        }
        for path in ["doc", "docs/guide", "docs/guide.md/x"] {
            assert!(!tree.holds(path), "{path}");
        }
    }

    #[test]
    fn what_was_built_or_recorded_in_the_checkout_is_not_read() {
        let root = std::env::temp_dir().join(format!("xtask-tidy-{}", std::process::id()));
        for file in ["build/CACHEDIR.TAG", "made/.rustc_info.json", "docs/guide.md"] {
            let file = root.join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "").unwrap();
        }
        // A file of zeros, which would be valid text.
        let trace = std::fs::File::create(root.join("pagewalk.pwt")).unwrap();
        trace.set_len(Tree::BYTES_MAX + 1).unwrap();
        let tree = Tree::read(&root);
        std::fs::remove_dir_all(&root).unwrap();
        let tree = tree.unwrap();
        let paths: Vec<_> = tree.files(|_| true).map(|(path, _)| path).collect();
        assert_eq!(paths, ["docs/guide.md"]);
        assert_eq!(tree.binary, ["pagewalk.pwt"]);
    }

    #[test]
    fn every_rule_runs() {
        let mut tree = Tree::default();
        tree.add("crates/nobody/Cargo.toml", "[dependencies]\n");
        tree.add("ARCHITECTURE.md", "| crate | holds |\n|---|---|\n| `gone` | x |\n[dead](nowhere.md)\n");
        let long = format!("fn one() {{\n{}}}\n", "println!();\nx.unwrap();\n".repeat(300));
        let wide = format!("{long}// {}\n", "w".repeat(120));
        tree.add("crates/nobody/src/lib.rs", wide);
        for (of, other) in ["ab", "bc", "cd", "da"].map(|edge| edge.split_at(1)) {
            tree.add(format!("crates/nobody/src/{of}.rs"), format!("use crate::{other}::Of{other};\n"));
        }
        let fields: String = (0..13).map(|field| format!("    f{field}: u8,\n")).collect();
        tree.add("crates/mm/src/wide.rs", format!("struct Wide {{\n{fields}}}\n"));
        tree.add("crates/mm/tests/quiet.rs", concat!("return ", "eprintln!();"));
        tree.add("docs/wide.md", "wide ".repeat(30));
        tree.add("notes.txt", concat!("TO", "DO: see /ro", "ot/notes\n"));
        let mut rules: Vec<_> = check(&tree).into_iter().map(|finding| finding.rule).collect();
        rules.sort();
        rules.dedup();
        let all = [
            "architecture-names",
            "dead-link",
            "doc-width",
            "file-length",
            "function-length",
            "layering",
            "library-output",
            "library-unwrap",
            "line-width",
            "machine-path",
            "module-circle",
            "struct-fields",
            "told-skip",
            "unfinished",
        ];
        assert_eq!(rules, all);
    }
}
