//! Generates the type stub of metrics for Python from the page of the registry: an attribute for each metric, with its
//! unit, its class and its meaning.
//!
//! A name is a path of attributes: `tlb.{array}.misses` is `metrics.tlb.l1d.misses`. Parts whose values the registry
//! lists become an attribute for each value; other parts stand for any attribute.

use std::collections::BTreeMap;
use std::fmt::Write;

/// Where the stub lies.
pub const PATH: &str = "python/pagewalk/metrics.pyi";

const HEAD: &str = "\
# `cargo xtask docs` makes this stub from `pagewalk schema metrics`.

from collections.abc import Iterator, Mapping
from typing import Any

class Family(Mapping[str, Any]):
    \"\"\"Metrics whose names begin alike; also by the rest of their names.\"\"\"

    def __getitem__(self, name: str) -> Any: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
";

const MACHINE: &str = "
class Metrics(Family, Attributes):
    \"\"\"A machine's metrics: `metrics.walks`, `metrics.tlb.l1d.misses`.

    Only metrics that the machine has are there.
    \"\"\"

    def __init__(self, values: Mapping[str, Any], prefix: str = \"\") -> None: ...
";

const ATTRIBUTES: &str = "    \"\"\"A machine's metrics as attributes.\"\"\"\n\n";

/// Any attribute.
const ANY: &str = "*";

/// A row of the registry.
#[derive(Clone)]
struct Metric {
    is_whole: bool,
    doc: String,
}

/// Metrics by the next part of their names.
#[derive(Default)]
struct Node {
    metric: Option<Metric>,
    parts: BTreeMap<String, Node>,
}

/// The stub, from the text of `docs/reference/metrics.md`.
pub fn stub(registry: &str) -> String {
    let values: Vec<(String, Vec<String>)> = registry.lines().filter_map(part).collect();
    let mut root = Node::default();
    for (name, metric) in registry.lines().filter_map(row) {
        for name in expanded(name, &values) {
            let node =
                name.split('.').fold(&mut root, |node, part| node.parts.entry(part.to_owned()).or_default());
            // A name may be there twice, as a count of two kinds of machines.
            node.metric.get_or_insert(metric.clone());
        }
    }
    let mut text = HEAD.to_owned();
    let body = body(&root, "Metrics", &mut text);
    let _ = write!(text, "\nclass Attributes:\n{ATTRIBUTES}{body}{MACHINE}");
    text
}

/// A metric's row: its name or pattern.
fn row(line: &str) -> Option<(&str, Metric)> {
    let mut cells = line.strip_prefix("| `")?.strip_suffix(" |")?.splitn(5, " | ");
    let name = cells.next()?.strip_suffix('`').filter(|name| !name.starts_with('{'))?;
    let (unit, class) = (cells.next()?.trim(), cells.next()?.trim());
    let doc = cells.nth(1)?.trim();
    let whole = ["", "bytes", "pages", "frames", "slots", "instruction"];
    let of = if unit.is_empty() { String::new() } else { format!(", {unit}") };
    Some((name, Metric { is_whole: whole.contains(&unit), doc: format!("{doc} ({class}{of})") }))
}

/// A named part's row, and its values; none if it stands for any text.
fn part(line: &str) -> Option<(String, Vec<String>)> {
    let (name, doc) = line.strip_prefix("| `{")?.split_once("}` | ")?;
    let Some((_, listed)) = doc.split_once(": `") else { return Some((name.to_owned(), Vec::new())) };
    // Meanings stand in parentheses, and may have code in them.
    let bare: String = listed.split('(').enumerate().map(|(n, text)| after_meaning(n, text)).collect();
    let value = |text: &str| text.trim_matches([' ', '`', '|']).to_owned();
    Some((name.to_owned(), bare.split(',').map(value).collect()))
}

/// What follows the end of a parenthesis; the text before the first one whole.
fn after_meaning(number: usize, text: &str) -> &str {
    if number == 0 { text } else { text.split_once(')').map_or("", |(_, after)| after) }
}

/// The names that a pattern stands for, with [`ANY`] for parts of any text.
fn expanded(pattern: &str, values: &[(String, Vec<String>)]) -> Vec<String> {
    let Some((head, rest)) = pattern.split_once('{') else { return vec![pattern.to_owned()] };
    let Some((part, tail)) = rest.split_once('}') else { return vec![pattern.to_owned()] };
    let known = values.iter().find(|(name, _)| name == part).map_or(&[][..], |(_, values)| values);
    let any = [ANY.to_owned()];
    let choices = if known.is_empty() { &any[..] } else { known };
    let tails = expanded(tail, values);
    choices.iter().flat_map(|choice| tails.iter().map(move |tail| format!("{head}{choice}{tail}"))).collect()
}

/// The body of the class of a node; the classes that its attributes need are written first.
fn body(node: &Node, name: &str, text: &mut String) -> String {
    let mut body = String::new();
    for (part, child) in &node.parts {
        let inner = format!("{name}{}", camel(part));
        let of = match &child.metric {
            Some(metric) => if metric.is_whole { "int" } else { "float" }.to_owned(),
            None => {
                let its = self::body(child, &inner, text);
                let _ = write!(text, "\nclass {inner}(Family):\n{its}");
                inner
            }
        };
        let doc = child.metric.as_ref().map(|metric| metric.doc.as_str());
        attribute(part, &of, doc, &mut body);
    }
    body
}

fn attribute(part: &str, of: &str, doc: Option<&str>, body: &mut String) {
    if part == ANY {
        let _ = writeln!(body, "    def __getattr__(self, name: str) -> {of}: ...");
        return;
    }
    let _ = match doc {
        None => writeln!(body, "    @property\n    def {part}(self) -> {of}: ..."),
        Some(doc) => {
            let doc = doc.replace('\\', "\\\\").replace('"', "'");
            writeln!(body, "    @property\n    def {part}(self) -> {of}:\n        \"\"\"{doc}\"\"\"\n")
        }
    };
}

/// `WalkCache` for `walk_cache`; `Each` for any part.
fn camel(part: &str) -> String {
    if part == ANY {
        return "Each".to_owned();
    }
    let word = |word: &str| {
        let mut letters = word.chars();
        letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
    };
    part.split('_').map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const REGISTRY: &str = "| name | unit | class | adds up | is |\n|---|---|---|---|---|\n\
        | `walks` |  | modelled | yes | page walks |\n\
        | `walk_cycle_share` | share of 1 | modelled | recomputed | cycles of walks \\| all |\n\
        | `tlb.{array}.hits` |  | modelled | yes | lookups that hit |\n\
        | `cycles.{class}_all` | cycles | modelled | yes | of a class |\n\
        | part | stands for |\n|---|---|\n\
        | `{array}` | a TLB, by its `name` |\n\
        | `{class}` | a class: `l1` (a page), `l2` (entries of `l1`, and more) |\n";

    #[test]
    fn every_metric_is_an_attribute_with_its_unit_and_class() {
        let stub = stub(REGISTRY);
        for expected in [
            "    def walks(self) -> int:\n        \"\"\"page walks (modelled)\"\"\"\n",
            "    def walk_cycle_share(self) -> float:\n",
            "(modelled, share of 1)",
            "class MetricsTlbEach(Family):\n    @property\n    def hits(self) -> int:",
            "    def __getattr__(self, name: str) -> MetricsTlbEach: ...\n",
            "    def tlb(self) -> MetricsTlb: ...\n",
            "    def l1_all(self) -> float:",
            "    def l2_all(self) -> float:",
        ] {
            assert!(stub.contains(expected), "{expected}\n in\n{stub}");
        }
        assert!(!stub.contains('{'), "{stub}");
    }

    #[test]
    fn classes_stand_before_those_that_use_them() {
        let stub = stub(REGISTRY);
        let place = |what: &str| stub.find(what).unwrap();
        assert!(place("class MetricsTlbEach") < place("class MetricsTlb("));
        assert!(place("class MetricsTlb(") < place("class Attributes:"));
    }
}
