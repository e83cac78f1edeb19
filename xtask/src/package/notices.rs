//! Licences and notices of the crates linked into the binary, which must be distributed with it.

use super::{capture, cargo, read_text};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// Prefixes of the names of such files.
const NAMES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE"];

const HEAD: &str = "\
pagewalk links the crates below, and Rust's standard library (MIT OR Apache-2.0; copyright: The Rust Project
Developers). Under each crate's name stands its licence; the notices follow, each once, under the crates that carry it.
";

/// The combined notices of all third-party crates that `pagewalk` links.
pub(super) fn of_crates(root: &Path) -> Result<String, String> {
    let linked = linked(root)?;
    let metadata = capture(cargo(root).args([
        "metadata",
        "--locked",
        "--format-version=1",
        "--filter-platform",
        super::TRIPLE,
    ]))?;
    let metadata: Value =
        serde_json::from_slice(&metadata).map_err(|e| format!("cargo metadata printed no JSON: {e}"))?;
    let mut list = String::from(HEAD);
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut packages: Vec<&Value> = metadata["packages"].as_array().into_iter().flatten().collect();
    packages.sort_by_key(|package| named(package));
    for package in packages {
        let name = named(package);
        if package["source"].is_null() || !linked.contains(&name) {
            continue;
        }
        let _ = writeln!(list, "\n{name}\n    {}", package["license"].as_str().unwrap_or("see its notice"));
        let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
        for text in notices(manifest.parent().unwrap_or(root))? {
            texts.entry(text).or_default().push(name.clone());
        }
    }
    let mut texts: Vec<_> = texts.into_iter().collect();
    texts.sort_by(|one, other| one.1.cmp(&other.1));
    for (text, names) in texts {
        let _ = write!(list, "\n{}\n{}\n\n{}\n", "-".repeat(78), names.join(", "), text.trim());
    }
    Ok(list)
}

fn named(package: &Value) -> String {
    let text = |key: &str| package[key].as_str().unwrap_or_default();
    format!("{} {}", text("name"), text("version"))
}

/// Names and versions of the linked crates, without procedural macros and build dependencies.
fn linked(root: &Path) -> Result<BTreeSet<String>, String> {
    let mut tree = cargo(root);
    tree.args([
        "tree",
        "--locked",
        "--package=pagewalk",
        "--edges=normal,no-proc-macro",
        "--prefix=none",
        "--target",
    ]);
    let printed = capture(tree.arg(super::TRIPLE))?;
    let words = |line: &str| {
        let mut words = line.split(' ');
        Some(format!("{} {}", words.next()?, words.next()?.strip_prefix('v')?))
    };
    Ok(String::from_utf8_lossy(&printed).lines().filter_map(words).collect())
}

/// The notices in a crate's folder, sorted by their files' names.
fn notices(folder: &Path) -> Result<Vec<String>, String> {
    let entries = fs::read_dir(folder).map_err(|e| format!("cannot list {}: {e}", folder.display()))?;
    let mut files: Vec<_> =
        entries.flatten().map(|entry| entry.path()).filter(|path| is_notice(path)).collect();
    files.sort();
    files.iter().map(|file| read_text(file)).collect()
}

fn is_notice(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
    path.is_file() && NAMES.iter().any(|begin| name.starts_with(begin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_of_others_are_listed_with_their_notices() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let text = of_crates(root).unwrap();
        for part in ["\nclap 4.", "    MIT OR Apache-2.0\n", "Permission is hereby granted", "\nzstd-sys "] {
            assert!(text.contains(part), "{part:?} is missing");
        }
        assert!(!text.contains("\npagewalk"), "our own crates have the package's licence");
    }
}
