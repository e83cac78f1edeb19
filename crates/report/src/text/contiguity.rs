//! The contiguity of a process's memory, on the terminal.

use super::paint::{Line, Style};
use super::table::{Table, WhenNarrow, names, numbers, texts};
use super::{Page, TextOptions};
use crate::contiguity::colors::{pages, sentences, shown, title};
use crate::contiguity::schema::{ColorSpread, ContiguityResult, MappingContiguity, PERCENTS, ReadingTime};
use crate::figures::base_name;
use crate::numbers::{bytes, count, exact, percent};
use crate::printable::printable;

/// Mappings shown without `--verbose`: those with most memory.
const MAPPINGS_SHOWN: usize = 6;

/// The result as text for a terminal.
pub fn render_contiguity_text(result: &ContiguityResult, options: &TextOptions) -> String {
    let mut page = Page::new(*options);
    headline(&mut page, result);
    page.blank();
    designs(&mut page, result);
    for missing in result.missing() {
        let text = format!("{}; to enable: {}", missing.reason, missing.enable);
        page.paragraph(Line::new(Style::Warning, "  –  "), Style::Plain, &printable(&text));
    }
    page.blank();
    let segment = contiguity_segment(result);
    page.paragraph(Line::new(Style::Plain, "  "), Style::Plain, &segment);
    page.blank();
    mappings(&mut page, result);
    page.blank();
    if let Some(spread) = &result.colors {
        colors(&mut page, spread);
        page.blank();
    }
    page.paragraph(Line::new(Style::Accent, "  "), Style::Strong, &printable(&result.advice));
    page.end()
}

fn headline(page: &mut Page, result: &ContiguityResult) {
    let of_pages = |pages: u64| bytes(pages.saturating_mul(result.page_bytes));
    let program = printable(base_name(&result.process.program));
    let about = format!(
        ": {} present, {} on huge pages",
        of_pages(result.present_pages),
        percent(result.huge_mapped_pages as f64 / result.all_mapped_pages().max(1) as f64)
    );
    page.line(Line::new(Style::Strong, program).and(Style::Strong, about));
    let mut facts = contiguity_moment(result);
    if let Some(peak) = result.peak_resident_bytes {
        facts += &format!("; it had {} at most", bytes(peak));
    }
    if let Some(again) = contiguity_again(result) {
        facts += &format!("; {again}");
    }
    if result.swapped_pages > 0 {
        facts += &format!("; {} swapped out, not counted", of_pages(result.swapped_pages));
    }
    page.paragraph(Line::new(Style::Quiet, "  "), Style::Quiet, &facts);
}

/// How much memory is mapped more than once, if at least one page in a thousand.
pub(crate) fn contiguity_again(result: &ContiguityResult) -> Option<String> {
    let of_pages = |pages: u64| bytes(pages.saturating_mul(result.page_bytes));
    let again = result.all_mapped_pages() - result.present_pages;
    (again * 1000 >= result.present_pages && again > 0).then(|| {
        format!(
            "{} of it mapped more than once, so that its page tables map {}, and entries are for these",
            of_pages(result.repeated_pages),
            of_pages(result.all_mapped_pages())
        )
    })
}

/// When the page tables were read, and how long that took.
pub(crate) fn contiguity_moment(result: &ContiguityResult) -> String {
    let process = &result.process;
    let when = match (process.read, process.at_seconds) {
        (ReadingTime::OnRequest, _) => "while it ran".to_owned(),
        (ReadingTime::AtExit, _) => "at its exit".to_owned(),
        (ReadingTime::WhileRunning, Some(seconds)) => {
            format!("{seconds:.1} s after its start, when it had more than at its exit")
        }
        (ReadingTime::WhileRunning, None) => "when it had more than at its exit".to_owned(),
    };
    format!("process {}, read in {:.1} ms {when}", process.pid, process.reading_seconds * 1000.0)
}

/// What one direct segment would map, as a sentence.
pub(crate) fn contiguity_segment(result: &ContiguityResult) -> String {
    let share = |pages: u64| percent(pages as f64 / result.all_mapped_pages().max(1) as f64);
    let size = |pages: u64| bytes(pages.saturating_mul(result.page_bytes));
    let longest = result.largest_virtual_run_pages;
    let bound = format!("{} if frames were laid out for it ({}; a bound)", share(longest), size(longest));
    match result.largest_range_pages {
        Some(pages) => {
            format!(
                "One direct segment would map {} as memory lies ({}), {bound}.",
                share(pages),
                size(pages)
            )
        }
        None => format!("One direct segment would map {bound}."),
    }
}

fn designs(page: &mut Page, result: &ContiguityResult) {
    let mut columns = vec![names("entries that map")];
    columns.extend(PERCENTS.iter().map(|percent| numbers(&format!("{percent} %"), WhenNarrow::Keep)));
    columns.extend([numbers("all", WhenNarrow::Drop(1)), texts("", WhenNarrow::Drop(2))]);
    let mut table = Table::new(columns);
    let figure = |entries: Option<u64>| Line::new(Style::Plain, entries.map_or("–".to_owned(), exact));
    for design in &result.designs {
        let mut row = vec![Line::new(Style::Plain, printable(&design.title))];
        row.extend(PERCENTS.iter().map(|&percent| figure(design.covering(percent))));
        row.push(figure(design.entries));
        row.push(Line::new(Style::Quiet, if design.class == "bound" { "bound" } else { "" }));
        table.row(row);
    }
    page.table(table);
}

/// Columns of the longest bar.
const BAR: u64 = 40;

fn colors(page: &mut Page, spread: &ColorSpread) {
    page.line(Line::new(Style::Strong, printable(&title(spread))));
    for sentence in sentences(spread) {
        page.paragraph(Line::new(Style::Plain, "  "), Style::Plain, &sentence);
    }
    let mut table = Table::new(vec![
        numbers("color", WhenNarrow::Keep),
        numbers("pages", WhenNarrow::Keep),
        numbers("on huge", WhenNarrow::Drop(1)),
        texts("", WhenNarrow::Drop(2)),
    ]);
    let (colors, hidden) = shown(spread, page.verbose);
    for color in colors {
        let columns =
            |pages: u64| (u128::from(pages) * u128::from(BAR)).div_ceil(spread.most_pages.max(1).into());
        let all = pages(spread, color);
        let bar = "█".repeat(columns(all).min(BAR.into()) as usize);
        let figures = [color.to_string(), exact(all), exact(spread.huge_pages[color]), bar];
        table.row(figures.map(|text| Line::new(Style::Plain, text)).into());
    }
    page.table(table);
    if hidden > 0 {
        page.line(Line::new(
            Style::Quiet,
            format!("  and {hidden} more colors with fewer pages (-v lists all)"),
        ));
    }
}

fn mappings(page: &mut Page, result: &ContiguityResult) {
    let mut shown: Vec<&MappingContiguity> = result.mappings.iter().collect();
    if !page.verbose {
        shown.sort_by_key(|mapping| std::cmp::Reverse(mapping.present_pages));
        shown.truncate(MAPPINGS_SHOWN);
    }
    let columns = vec![
        names("mapping"),
        texts("rights", WhenNarrow::Drop(1)),
        numbers("present", WhenNarrow::Keep),
        numbers("on huge", WhenNarrow::Keep),
        numbers("runs", WhenNarrow::Keep),
        numbers("ranges", WhenNarrow::Keep),
    ];
    let mut table = Table::new(columns);
    let plain = |text: String| Line::new(Style::Plain, text);
    let known = |figure: Option<String>| plain(figure.unwrap_or_else(|| "–".to_owned()));
    for mapping in &shown {
        let share = |pages: u64| percent(pages as f64 / mapping.present_pages.max(1) as f64);
        let name = if mapping.name.is_empty() { &mapping.start } else { &mapping.name };
        table.row(vec![
            plain(printable(name)),
            plain(printable(&mapping.rights)),
            plain(bytes(mapping.present_pages.saturating_mul(result.page_bytes))),
            known(mapping.huge_mapped_pages.map(share)),
            plain(count(mapping.virtual_runs)),
            known(mapping.ranges.map(count)),
        ]);
    }
    page.table(table);
    let hidden = result.mappings.len() - shown.len();
    if hidden > 0 {
        page.line(Line::new(Style::Quiet, format!("  and {hidden} more mappings with less (-v lists all)")));
    }
}
