//! Checks names: modules have nouns as names, and names use the words of the glossary.

use super::text::is_crate_source;
use super::tokens::tokens_of;
use super::{Finding, Tree};
use std::collections::BTreeMap;

/// Module names that are not nouns, besides those with [`ENDINGS`].
const NO_NOUNS: [&str; 17] = [
    "given", "gone", "held", "initial", "kept", "known", "laid", "latest", "left_out", "lower", "made",
    "once", "own", "recent", "seen", "taken", "told",
];
/// Endings of verbs and participles.
const ENDINGS: [&str; 2] = ["ed", "ing"];
/// Exceptions with these endings: nouns, and established names of kinds of TLBs, page tables or policies.
const NOUNS: [&str; 23] = [
    "anchored",
    "backing",
    "coalesced",
    "everything",
    "feed",
    "fitting",
    "fixed",
    "hashed",
    "khugepaged",
    "landing",
    "mapping",
    "nested",
    "paging",
    "recording",
    "ring",
    "setting",
    "shared",
    "sharing",
    "skewed",
    "timing",
    "tracing",
    "untouched",
    "one_mapping",
];
/// The glossary, which defines the words to use.
const GLOSSARY: &str = "docs/glossary.md";
/// The column of its tables with the words to avoid.
const NOT_USED: &str = "not";

/// Checks that module names are nouns.
pub fn module_noun(tree: &Tree, findings: &mut Vec<Finding>) {
    for (path, _) in tree.files(is_crate_source) {
        let file = path.strip_suffix("/mod.rs").unwrap_or(path.strip_suffix(".rs").unwrap_or(path));
        let name = file.rsplit('/').next().unwrap_or(file);
        let ends_so = ENDINGS.iter().any(|ending| name.ends_with(ending)) && !NOUNS.contains(&name);
        if ends_so || NO_NOUNS.contains(&name) {
            let message = format!("`{name}` is no noun: name the module by what it holds");
            findings.push(Finding { path: path.to_owned(), line: 1, rule: "module-noun", message });
        }
    }
}

/// Checks that no part of a name in code is a word that the glossary says to avoid: `page_stats` contains `stats`.
pub fn vocabulary(tree: &Tree, findings: &mut Vec<Finding>) {
    let words: BTreeMap<String, String> =
        tree.files(|path| path == GLOSSARY).flat_map(|(_, text)| words_not_used(text)).collect();
    for (path, text) in tree.files(is_crate_source) {
        for token in tokens_of(text) {
            for part in parts_of(token.text) {
                let Some(instead) = words.get(&part) else { continue };
                let message = format!("`{}`: the glossary's word for `{part}` is `{instead}`", token.text);
                let line = token.line;
                findings.push(Finding { path: path.to_owned(), line, rule: "vocabulary", message });
            }
        }
    }
}

/// From the glossary's tables: each word to avoid, with the word to use.
fn words_not_used(glossary: &str) -> Vec<(String, String)> {
    let mut column = None;
    let mut words = Vec::new();
    for line in glossary.lines() {
        let Some(row) = line.strip_prefix('|') else {
            column = None;
            continue;
        };
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        match column {
            None => column = cells.iter().position(|cell| *cell == NOT_USED),
            Some(column) => {
                let listed = cells.get(column).copied().unwrap_or_default();
                let is_word = |word: &&str| !word.is_empty() && !word.starts_with('-');
                let of = |word: &str| (word.to_owned(), cells[0].to_owned());
                words.extend(listed.split(',').map(str::trim).filter(is_word).map(of));
            }
        }
    }
    words
}

/// The words of a name, in lower case: `TlbStats` and `tlb_stats` give `tlb` and `stats`.
fn parts_of(name: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let mut was_lower = false;
    for letter in name.chars() {
        let begins = letter == '_' || letter.is_uppercase() && was_lower || parts.is_empty();
        if begins {
            parts.push(String::new());
        }
        was_lower = letter.is_lowercase() || letter.is_ascii_digit();
        if letter != '_'
            && let Some(part) = parts.last_mut()
        {
            part.extend(letter.to_lowercase());
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::super::tests::places;
    use super::*;

    #[test]
    fn modules_are_nouns() {
        let files = [
            ("crates/sim/src/told.rs", ""),
            ("crates/sim/src/waiting.rs", ""),
            ("crates/sim/src/folded/mod.rs", ""),
            ("crates/sim/src/folded/order.rs", ""),
            ("crates/sim/src/ring.rs", ""),
            ("crates/sim/tests/told.rs", ""),
        ];
        let found =
            ["crates/sim/src/folded/mod.rs:1", "crates/sim/src/told.rs:1", "crates/sim/src/waiting.rs:1"];
        assert_eq!(places(module_noun, &files), found);
    }

    #[test]
    fn a_thing_has_one_word() {
        let glossary = "# Words\n\n| word | what it is | not |\n|---|---|---|\n| metric | A figure. | stats, kpi |\n\
                        | page | Memory. | |\n\n| word | what |\n|---|---|\n| set | entries |\n";
        let code = "struct PageStats;\nfn set_of_page() {}\n// stats\nlet kpi_max = \"stats\";\n";
        let files = [(GLOSSARY, glossary), ("crates/sim/src/lib.rs", code)];
        assert_eq!(places(vocabulary, &files), ["crates/sim/src/lib.rs:1", "crates/sim/src/lib.rs:4"]);
        assert_eq!(parts_of("TlbStats2"), ["tlb", "stats2"]);
        assert_eq!(parts_of("MAX_PAGES"), ["max", "pages"]);
    }
}
