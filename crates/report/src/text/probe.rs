//! The costs of a host's translation, on the terminal.

use super::paint::{Line, Style};
use super::table::{Table, WhenNarrow, names, numbers, texts};
use super::{Page, TextOptions};
use crate::numbers::exact;
use crate::printable::printable;
use crate::probe::schema::{Figure, ProbeResult};
use crate::probe::{entries, quantity, replacement, replacement_basis, ways, where_measured};

/// The result as text for a terminal.
pub fn render_probe_text(result: &ProbeResult, options: &TextOptions) -> String {
    let mut page = Page::new(*options);
    page.line(Line::new(Style::Strong, "This host, by timing"));
    page.paragraph(Line::new(Style::Quiet, "  "), Style::Quiet, &printable(&where_measured(result)));
    let took = format!("measured in {:.1} s", result.seconds);
    let quick = if result.quick { "; a quick look: few repeats, not to be relied on" } else { "" };
    page.line(Line::new(Style::Quiet, format!("  {took}{quick}")));
    page.blank();
    tlbs(&mut page, result);
    page.blank();
    figures(&mut page, result);
    notes(&mut page, result);
    page.end()
}

fn tlbs(page: &mut Page, result: &ProbeResult) {
    let compared = result.tlbs.iter().any(|tlb| tlb.machine_entries.is_some());
    let machine = if compared { "of the machine" } else { "" };
    let mut table = Table::new(vec![
        names("data TLB"),
        numbers("entries", WhenNarrow::Keep),
        numbers("ways", WhenNarrow::Keep),
        numbers(machine, WhenNarrow::Keep),
        texts("replaces", WhenNarrow::Keep),
        texts("", WhenNarrow::Drop(1)),
    ]);
    for tlb in &result.tlbs {
        let about = match &tlb.refused {
            None => String::new(),
            Some(_) => {
                format!("file takes {} of {} ways", exact(tlb.assumed.entries), tlb.assumed.ways)
            }
        };
        table.row(vec![
            Line::new(Style::Plain, format!("level {}, {} pages", tlb.level, crate::page_name(&tlb.page))),
            Line::new(Style::Plain, entries(tlb)),
            Line::new(Style::Plain, ways(tlb)),
            Line::new(Style::Plain, tlb.machine_entries.map_or(String::new(), exact)),
            Line::new(Style::Plain, printable(&replacement(tlb))),
            Line::new(Style::Quiet, about),
        ]);
    }
    page.table(table);
    if page.verbose {
        for tlb in &result.tlbs {
            for why in [tlb.refused.clone(), replacement_basis(tlb)].into_iter().flatten() {
                let text = format!("level {}, {} pages: {why}", tlb.level, crate::page_name(&tlb.page));
                page.paragraph(Line::new(Style::Warning, "  –  "), Style::Plain, &printable(&text));
            }
        }
    }
}

/// Figures shown without `--verbose`.
fn is_main(figure: &Figure) -> bool {
    !figure.name.starts_with("walk_extra.")
        || figure.name.ends_with("chains_1")
        || figure.name.ends_with("chains_4")
}

fn figures(page: &mut Page, result: &ProbeResult) {
    let mut table = Table::new(vec![
        names("what it costs"),
        numbers("median", WhenNarrow::Keep),
        numbers("cycles", WhenNarrow::Keep),
        numbers("10th to 90th percentile", WhenNarrow::Drop(1)),
    ]);
    let verbose = page.verbose;
    let shown = result.figures.iter().filter(|figure| figure.value.is_some() && (verbose || is_main(figure)));
    for figure in shown {
        let plain = |text: String| Line::new(Style::Plain, text);
        let spread = match (figure.low, figure.high) {
            (Some(low), Some(high)) => {
                format!("{} to {}", quantity(low, &figure.unit), quantity(high, &figure.unit))
            }
            _ => String::new(),
        };
        table.row(vec![
            plain(printable(&figure.title)),
            plain(figure.value.map_or(String::new(), |value| quantity(value, &figure.unit))),
            plain(figure.cycles.map_or(String::new(), |cycles| exact(cycles.round() as u64))),
            Line::new(Style::Quiet, spread),
        ]);
    }
    page.table(table);
}

fn notes(page: &mut Page, result: &ProbeResult) {
    let refused = result.refused();
    if refused.is_empty() && result.notes.is_empty() {
        return;
    }
    page.blank();
    for (why, names) in refused {
        let text = format!("{}: {why}", names.join(", "));
        page.paragraph(Line::new(Style::Warning, "  –  "), Style::Plain, &printable(&text));
    }
    for note in &result.notes {
        page.paragraph(Line::new(Style::Quiet, "  –  "), Style::Quiet, &printable(note));
    }
}
