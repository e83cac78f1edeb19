//! Samples as text.

use pagewalk_report::documents::samples::{SampleCounts, SampledPart, SamplesResult, StreamComparison};
use pagewalk_report::{printable, shortened};
use std::fmt::Write;

/// Rows of a table without `--verbose`.
const ROWS: usize = 10;
/// Most characters of a name.
const NAME_WIDTH: usize = 60;

/// The tables of a result; `verbose` shows all rows.
pub fn render(result: &SamplesResult, verbose: bool) -> String {
    let rows = if verbose { usize::MAX } else { ROWS };
    let SampleCounts { samples, walks, pages, .. } = result.samples;
    let time = result.seconds.map_or(String::new(), |seconds| format!(" in {seconds:.2} s"));
    let mut out = format!(
        "{} ({}): {samples} samples with addresses{time}, {walks} of them walks, on {pages} pages\n",
        printable(&result.file),
        result.format
    );
    let _ =
        writeln!(out, "  events: {}", joined(result.events.iter().map(|event| (&event.name, event.samples))));
    let processes =
        result.processes.iter().map(|one| (format!("{} {}", one.command, one.process), one.samples));
    let _ = writeln!(out, "  processes: {}", joined(processes.take(rows)));
    table(&mut out, "what translation met", &result.outcomes, rows);
    table(&mut out, "page size", &result.page_sizes, rows);
    table(&mut out, "mapping", &result.mappings, rows);
    table(&mut out, "function", &result.functions, rows);
    // The object file would take the line's place.
    let sites: Vec<SampledPart> =
        result.sites.iter().map(|site| SampledPart { file: None, ..site.clone() }).collect();
    table(&mut out, "line of source", &sites, rows);
    if !result.regions.is_empty() {
        let _ = writeln!(out, "\n  {:>8}{:>8}{:>6}  2 MiB region", "walks", "pages", "huge");
        for one in result.regions.iter().take(rows) {
            let huge = if one.huge { "yes" } else { "no" };
            let _ = writeln!(
                out,
                "  {:>8}{:>8}{huge:>6}  {} {}",
                one.walks,
                one.pages,
                one.start,
                cut(&one.mapping)
            );
        }
        more(&mut out, result.regions.len(), rows);
    }
    result.stream.iter().for_each(|stream| comparison(&mut out, stream, rows));
    result.notes.iter().for_each(|note| out += &format!("  {}\n", printable(note)));
    out
}

fn joined(parts: impl Iterator<Item = (impl std::fmt::Display, u64)>) -> String {
    let part = |(name, samples): (_, u64)| printable(&format!("{name} ({samples})"));
    parts.map(part).collect::<Vec<_>>().join(", ")
}

fn table(out: &mut String, title: &str, parts: &[SampledPart], rows: usize) {
    if parts.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "\n  {:>8}{:>8}{:>9}{:>12}{:>8}  {title}",
        "samples", "share", "walks", "cycles", "pages"
    );
    for SampledPart { name, file, counts } in parts.iter().take(rows) {
        let cycles = counts.weight.map_or("-".to_owned(), |weight| weight.to_string());
        let file = file.as_ref().map_or(String::new(), |file| format!(" ({file})"));
        let share = format!("{:.1} %", counts.share * 100.0);
        let name = cut(&format!("{name}{file}"));
        let SampleCounts { samples, walks, pages, .. } = counts;
        let _ = writeln!(out, "  {samples:>8}{share:>8}{walks:>9}{cycles:>12}{pages:>8}  {name}");
    }
    more(out, parts.len(), rows);
}

fn more(out: &mut String, all: usize, shown: usize) {
    if all > shown {
        let _ = writeln!(out, "  and {} more (-v lists all)", all - shown);
    }
}

/// A name that is safe to print, cut in its middle if it is long.
fn cut(name: &str) -> String {
    shortened(&printable(name), NAME_WIDTH)
}

fn comparison(out: &mut String, stream: &StreamComparison, rows: usize) {
    let correlation = |value: Option<f64>| value.map_or("unknown".to_owned(), |value| format!("{value:.2}"));
    let _ = writeln!(
        out,
        "\n  next to {}, {} references: rank correlation {} over mappings, {} over {} pages\n  \
         {:>8}{:>8}{:>12}  mapping",
        printable(&stream.trace),
        stream.references,
        correlation(stream.mapping_correlation),
        correlation(stream.page_correlation),
        stream.pages,
        "samples",
        "stream",
        "difference",
    );
    for one in stream.mappings.iter().take(rows) {
        let (sampled, referenced) = (one.sampled_share * 100.0, one.referenced_share * 100.0);
        let _ = writeln!(
            out,
            "  {:>8}{:>8}{:>12}  {}",
            format!("{sampled:.1} %"),
            format!("{referenced:.1} %"),
            format!("{:+.1}", sampled - referenced),
            cut(&one.name)
        );
    }
    more(out, stream.mappings.len(), rows);
}
