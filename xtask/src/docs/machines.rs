//! Generates the page of the machine library from the machine files.

use crate::markdown::wrapped;
use crate::tidy::Tree;
use std::collections::BTreeMap;
use std::fmt::Write;
use toml::{Table, Value};

const HEAD: &str = "\
# Machines

The machines of the library: each is a file in `machines/`, and `-m NAME` simulates it.
`pagewalk machines show NAME` prints one with its reach, its caches and its costs;
`pagewalk machines show --toml NAME` prints the file, in which each number has its source.

A TLB stands as `NAME ENTRIES×WAYS` with the page sizes that it holds, a cache as `NAME SIZE×WAYS`
with its latency; `full` means that it is fully associative. Levels are apart by semicolons.

";

/// The text of `docs/reference/machines.md`.
pub fn page(tree: &Tree) -> Result<String, String> {
    let mut page = HEAD.to_owned();
    let mut sections = String::new();
    page.push_str("| name | machine | kind |\n|---|---|---|\n");
    for (path, text) in tree.files(|path| path.starts_with("machines/") && path.ends_with(".toml")) {
        let machine = Machine::read(text).map_err(|why| format!("{path}: {why}"))?;
        let Machine { name, title, kind, .. } = &machine;
        let _ = writeln!(page, "| [{name}](#{name}) | {title} | {kind} |");
        machine.section(&mut sections);
    }
    Ok(page + &sections)
}

/// Descriptions of arrays by level.
type Levels = BTreeMap<i64, Vec<String>>;

fn in_levels(levels: &Levels) -> String {
    let levels: Vec<String> = levels.values().map(|arrays| arrays.join(", ")).collect();
    levels.join("; ")
}

/// Adds a file's arrays of a kind.
fn add(
    levels: &mut Levels,
    file: &Table,
    kind: &str,
    told: fn(&Table) -> Option<String>,
) -> Result<(), String> {
    for array in file.get(kind).and_then(Value::as_array).into_iter().flatten() {
        let array = array.as_table().ok_or_else(|| format!("`{kind}` is no table"))?;
        let level = array.get("level").and_then(Value::as_integer);
        let level = level.ok_or_else(|| format!("a `{kind}` without level"))?;
        let told = told(array).ok_or_else(|| format!("a `{kind}` without a key that it needs"))?;
        levels.entry(level).or_default().push(told);
    }
    Ok(())
}

/// What the page says about a machine.
struct Machine {
    name: String,
    title: String,
    kind: String,
    tlbs: Levels,
    caches: Levels,
    /// Whether caches are simulated on request only.
    on_request: bool,
    /// For each source, its short name in the file and its description.
    sources: Vec<(String, String)>,
}

impl Machine {
    fn read(text: &str) -> Result<Machine, String> {
        let file: Table = text.parse().map_err(|error: toml::de::Error| error.message().to_owned())?;
        let text_of = |key: &str| {
            let value = file.get(key).and_then(Value::as_str);
            value.map(str::to_owned).ok_or_else(|| format!("`{key}` is no text"))
        };
        let mut tlbs = Levels::new();
        add(&mut tlbs, &file, "tlb", tlb)?;
        add(&mut tlbs, &file, "range_tlb", range_tlb)?;
        let mut caches = Levels::new();
        add(&mut caches, &file, "cache", cache)?;
        let on_request = file.get("caches").and_then(Value::as_str) == Some("on request");
        let kind = kind(&file).ok_or("no kind of walker")?;
        let (name, title) = (text_of("name")?, text_of("title")?);
        Ok(Machine { name, title, kind, tlbs, caches, on_request, sources: sources(text) })
    }

    fn section(&self, page: &mut String) {
        let Machine { name, title, kind, tlbs, caches, on_request, sources } = self;
        let _ = write!(page, "\n## {name}\n\n{}\n", wrapped("", &format!("{title}: {kind}.")));
        page.push_str(&wrapped("", &format!("TLBs: {}.", in_levels(tlbs))));
        if !caches.is_empty() {
            let asked =
                if *on_request { format!("Caches with `-m {name}+caches`") } else { "Caches".to_owned() };
            page.push_str(&wrapped("", &format!("\n{asked}: {}.", in_levels(caches))));
        }
        if !sources.is_empty() {
            page.push_str("\nSources:\n\n");
        }
        for (name, text) in sources {
            page.push_str(&wrapped("  ", &format!("- {name}: {text}")));
        }
    }
}

/// The kind of translation hardware and of page table.
fn kind(file: &Table) -> Option<String> {
    let walker = file.get("walker")?.as_table()?;
    let text = |key: &str| walker.get(key).and_then(Value::as_str);
    let walks = match (text("kind")?, text("format")) {
        ("software", _) if walker.contains_key("mapped") => {
            "refilled by software from mapped tables".to_owned()
        }
        ("software", _) => "refilled by software".to_owned(),
        (kind, Some(format)) => format!("{kind} walker, {format}"),
        (kind, None) => format!("{kind} walker"),
    };
    let data = file.get("side").and_then(Value::as_str) == Some("data");
    Some(if data { format!("data side, {walks}") } else { walks })
}

/// A TLB in short form, such as `l2` 1024×8 (4K 2M).
fn tlb(tlb: &Table) -> Option<String> {
    let sizes = tlb.get("page_sizes")?.as_array()?.iter().filter_map(Value::as_str);
    let sizes = sizes.collect::<Vec<_>>().join(" ");
    let entries = tlb.get("entries")?.as_integer()?;
    let ways = match tlb.get("ways").and_then(Value::as_integer) {
        Some(ways) if ways < entries => ways.to_string(),
        _ => "full".to_owned(),
    };
    Some(format!("`{}` {entries}×{ways} ({sizes})", tlb.get("name")?.as_str()?))
}

fn range_tlb(tlb: &Table) -> Option<String> {
    let entries = tlb.get("entries")?.as_integer()?;
    Some(format!("`{}` {entries}×full (ranges)", tlb.get("name")?.as_str()?))
}

/// A cache in short form, such as `l2` 1M×8 (14 cycles).
fn cache(cache: &Table) -> Option<String> {
    let text = |key: &str| cache.get(key).and_then(Value::as_str);
    let ways = cache.get("ways").and_then(Value::as_integer);
    let ways = ways.map_or("full".to_owned(), |ways| ways.to_string());
    let latency = cache.get("latency")?.as_integer()?;
    let victims = if text("fills") == Some("victims") { ", victims" } else { "" };
    Some(format!("`{}` {}×{ways} ({latency} cycles{victims})", text("name")?, text("size")?))
}

/// The lists of sources at the beginning of a file: each source has a name, and continues in lines that are indented
/// further.
fn sources(text: &str) -> Vec<(String, String)> {
    let mut sources: Vec<(String, String)> = Vec::new();
    let mut is_listed = false;
    for line in text.lines().take_while(|line| line.starts_with('#')) {
        let Some(source) = line.strip_prefix("#   ") else {
            is_listed = ["# Source", "# Sources", "# Sources of the caches"].contains(&line);
            continue;
        };
        match (source.starts_with(' '), sources.last_mut()) {
            _ if !is_listed => {}
            (true, Some((_, text))) => {
                text.push(' ');
                text.push_str(source.trim());
            }
            _ => {
                let (name, text) = source.split_once(' ').unwrap_or((source, ""));
                sources.push((name.to_owned(), text.trim().to_owned()));
            }
        }
    }
    sources
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
# One
#
# Sources
#   manual  The manual,
#           second page
#   cpuid a dump
# Not modelled.
name = \"one\"
title = \"One\"
tlb = [
    { name = \"l2\", level = 2, entries = 8, ways = 4, page_sizes = [\"4K\", \"2M\"] },
    { name = \"l1\", level = 1, entries = 4, page_sizes = [\"4K\"] },
]
range_tlb = [{ name = \"r\", level = 2, entries = 2 }]
walker = { kind = \"radix\", format = \"x86-64\" }
";

    #[test]
    fn a_machine_is_told_from_its_file() {
        let mut tree = Tree::default();
        tree.add("machines/one.toml", FILE);
        let page = page(&tree).unwrap();
        let row = "| [one](#one) | One | radix walker, x86-64 |\n";
        let section = "\n## one\n\nOne: radix walker, x86-64.\n\n\
            TLBs: `l1` 4×full (4K); `l2` 8×4 (4K 2M), `r` 2×full (ranges).\n\n\
            Sources:\n\n- manual: The manual, second page\n- cpuid: a dump\n";
        assert!(page.contains(row) && page.ends_with(section), "{page}");
    }

    #[test]
    fn kinds_say_who_refills() {
        let kind = |text: &str| kind(&text.parse().unwrap());
        for (text, told) in [
            ("[walker]\nkind = \"software\"", "refilled by software"),
            ("[walker]\nkind = \"software\"\n[walker.mapped]", "refilled by software from mapped tables"),
            ("side = \"data\"\n[walker]\nkind = \"radix\"", "data side, radix walker"),
        ] {
            assert_eq!(kind(text).as_deref(), Some(told));
        }
        let mut tree = Tree::default();
        tree.add("machines/none.toml", "name = \"none\"\n");
        assert!(page(&tree).unwrap_err().starts_with("machines/none.toml: "));
    }
}
