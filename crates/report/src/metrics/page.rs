//! The registry as a page of the reference.

use super::{Aggregation, CHAPTERS, Metric, MetricPart, PARTS};
use std::fmt::Write;

const HEAD: &str = "\
# Metrics

Every counter of a machine that `profile`, `simulate` and `sweep` write, by the name that it has in
JSON, in Parquet and in studies.

A *measured* figure is counted on the program itself, whatever the machine. A *modelled* one is
counted on the machine as its file describes it, or is such a count times a price of that file. A
*bound* is what no machine can beat. *Adds up* says how a metric combines over
processes or cores: it is their sum, it is recomputed from sums, or it is left out. What has no
unit is a count.
";

/// `docs/reference/metrics.md`, as Markdown.
pub fn page() -> String {
    let mut page = HEAD.to_owned();
    for chapter in CHAPTERS {
        let _ = write!(page, "\n## {}\n\n{}\n\n", chapter.title, chapter.about);
        page.push_str("| name | unit | class | adds up | is |\n|---|---|---|---|---|\n");
        chapter.metrics.iter().for_each(|metric| page.push_str(&row(metric)));
    }
    page.push_str("\n## Parts of names\n\n| part | stands for |\n|---|---|\n");
    PARTS.iter().for_each(|part| page.push_str(&part_row(part)));
    page
}

fn row(metric: &Metric) -> String {
    let adds = match metric.adds {
        Aggregation::Sum => "yes",
        Aggregation::Recomputed { .. } => "recomputed",
        Aggregation::Never => "no",
    };
    let Metric { id, unit, class, doc, .. } = metric;
    format!("| `{id}` | {} | {} | {adds} | {doc} |\n", unit.name(), class.name())
}

fn part_row(part: &MetricPart) -> String {
    let value = |(value, means): &(&str, &str)| match *means {
        "" => format!("`{value}`"),
        means => format!("`{value}` ({means})"),
    };
    let values: Vec<String> = part.values.iter().map(value).collect();
    let listed = if values.is_empty() { String::new() } else { format!(": {}", values.join(", ")) };
    format!("| `{{{}}}` | {}{listed} |\n", part.name, part.doc)
}
