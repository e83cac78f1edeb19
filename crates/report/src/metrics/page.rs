//! The registry as a page of the guide.

use super::{Adds, CHAPTERS, Metric, PARTS, Part};
use std::fmt::Write;

const HEAD: &str = "\
# Metrics

Every counter of a machine that `profile`, `simulate` and `sweep` write, by the name that it has in JSON, in Parquet and
in studies. `pagewalk schema metrics` prints this page from the registry in `crates/report/src/metrics`; a test holds
both equal.

The guide says [what measured, modelled and bound mean](user-guide.md#what-the-numbers-mean). *Adds up* tells what
becomes of a metric where processes or cores are taken together: it is their sum, it is made anew of sums, or it is left
out. What has no unit is a count.
";

/// `docs/metrics.md`, as Markdown.
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
        Adds::Up => "yes",
        Adds::Anew { .. } => "anew",
        Adds::Never => "no",
    };
    let Metric { id, unit, class, doc, .. } = metric;
    format!("| `{id}` | {} | {} | {adds} | {doc} |\n", unit.name(), class.name())
}

fn part_row(part: &Part) -> String {
    let value = |(value, means): &(&str, &str)| match *means {
        "" => format!("`{value}`"),
        means => format!("`{value}` ({means})"),
    };
    let values: Vec<String> = part.values.iter().map(value).collect();
    let listed = if values.is_empty() { String::new() } else { format!(": {}", values.join(", ")) };
    format!("| `{{{}}}` | {}{listed} |\n", part.name, part.doc)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_guide_has_the_registry_as_it_is() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, page()).expect("the page can be written");
        }
        let written = std::fs::read_to_string(&path).expect("the page is there");
        let page = page();
        let first = written.lines().zip(page.lines()).find(|(written, now)| written != now);
        assert!(written == page, "`pagewalk schema metrics > docs/metrics.md` writes it anew: {first:?}");
    }
}
