//! Checks that metrics named in pages are in the registry.

use super::is_page;
use crate::markdown::{Piece, pieces};
use crate::tidy::{Finding, Tree};
use std::collections::BTreeSet;

/// First parts of metric names that are also keys of files. Such a name counts as a metric only if it has a part in
/// braces.
const SHARED: [&str; 8] =
    ["anchors", "cache", "lite", "memory", "predictor", "range_tlb", "tlb", "walk_cache"];
/// File extensions: file names contain dots as metric names do.
const FILES: [&str; 9] = ["c", "h", "html", "json", "md", "parquet", "rs", "toml", "txt"];

/// Checks that a code span such as `kernel.faults` or `tlb.{array}.hits` is on the page of the registry.
pub fn unknown_metric(tree: &Tree, registry: &str, findings: &mut Vec<Finding>) {
    let names: Vec<&str> = registry.lines().filter_map(registered).collect();
    let families: BTreeSet<&str> = names.iter().filter_map(|name| Some(name.split_once('.')?.0)).collect();
    for (path, text) in tree.files(is_page) {
        let spans = pieces(text).into_iter().filter(|piece| piece.is_code);
        for Piece { line, text: span, .. } in spans.filter(|span| looks_like_a_metric(&families, &span.text))
        {
            if names.iter().any(|name| matches(name, &span)) {
                continue;
            }
            let message = format!("no metric is named `{span}`: docs/reference/metrics.md lists all");
            findings.push(Finding { path: path.to_owned(), line, rule: "unknown-metric", message });
        }
    }
}

/// The metric in a row of the registry's page.
fn registered(line: &str) -> Option<&str> {
    let name = line.strip_prefix("| `")?.split('`').next()?;
    // Name parts in braces are listed in a separate table.
    Some(name).filter(|name| !name.starts_with('{'))
}

fn looks_like_a_metric(families: &BTreeSet<&str>, span: &str) -> bool {
    let Some((family, rest)) = span.split_once('.') else { return false };
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_.{}".contains(c);
    let last = rest.rsplit('.').next().unwrap_or_default();
    families.contains(family)
        && !rest.is_empty()
        && rest.chars().all(is_part)
        && !FILES.contains(&last)
        && (!SHARED.contains(&family) || rest.contains('{'))
}

/// Whether a name matches a pattern: a part in braces stands for any text without dots, and for itself.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('{') {
        None => pattern == name,
        Some((head, rest)) => {
            let (Some(after), Some((_, tail))) = (name.strip_prefix(head), rest.split_once('}')) else {
                return false;
            };
            let end = after.find('.').unwrap_or(after.len());
            (1..=end).any(|end| after.is_char_boundary(end) && matches(tail, &after[end..]))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REGISTRY: &str = "| name | unit |\n| `walks` |  |\n| `kernel.faults` | |\n| `kernel.{account}_cycles` | |\n\
        | `tlb.{array}.hits` | |\n| `tlb.level{level}.misses` | |\n| `{array}` | a TLB |\n";

    #[test]
    fn names_in_families_of_metrics_are_metrics() {
        let found = |text: &str| {
            let mut tree = Tree::default();
            tree.add("docs/guide.md", text);
            let mut findings = Vec::new();
            unknown_metric(&tree, REGISTRY, &mut findings);
            findings.len()
        };
        for fine in [
            "`kernel.faults` `kernel.copy_cycles` `kernel.{account}_cycles` `tlb.{array}.hits` `walk`",
            "`kernel.rs` `tlb.ways` `tlb.4k.hit` `kernel.*` `kernel.…` kernel.nonesuch `e.g.` `kernel.` `a.b`",
            "```\n`kernel.nonesuch`\n```\n",
            "`tlb.level{level}.misses`",
        ] {
            assert_eq!(found(fine), 0, "{fine}");
        }
        for wrong in
            ["`kernel.fault`", "| `kernel._cycles` |", "`tlb.{array}.hit`", "`tlb.{x}`", "`kernel.a.b`"]
        {
            assert_eq!(found(wrong), 1, "{wrong}");
        }
    }
}
