//! Conflicts in the sets of a TLB, on the terminal.

use super::paint::{Line, Style, plain};
use super::table::{Table, WhenNarrow, names, numbers, texts};
use super::{Page, TextOptions};
use crate::conflicts::schema::{ArrayResult, ConflictsResult, OwnerRow};
use crate::conflicts::{array_title, headline, page_name, summary};
use crate::numbers::{count, percent};
use crate::printable::printable;

/// Rows shown without `--verbose` and with it.
const ROWS_SHOWN: [usize; 2] = [6, 24];
/// Evictions shown for each set.
const ARROWS_SHOWN: usize = 3;

/// The result as text for a terminal.
pub fn render_conflicts_text(result: &ConflictsResult, options: &TextOptions) -> String {
    let mut page = Page::new(*options);
    page.line(Line::new(Style::Strong, printable(&headline(result))));
    let (instructions, pages) = (count(result.code.instructions), result.code.pages.len());
    let facts = format!(
        "{instructions} instructions on {pages} pages of code, measured; all else is modelled, each array alone"
    );
    page.paragraph(Line::new(Style::Quiet, "  "), Style::Quiet, &facts);
    for loss in &result.losses {
        page.paragraph(Line::new(Style::Warning, "  ! "), Style::Plain, &printable(loss));
    }
    for array in &result.arrays {
        page.blank();
        write_array(&mut page, array);
    }
    page.end()
}

fn write_array(page: &mut Page, array: &ArrayResult) {
    page.line(Line::new(Style::Strong, printable(&array_title(array))));
    misses(page, array);
    page.blank();
    sets(page, array);
    page.blank();
    owners(page, array);
    page.blank();
    pages(page, array);
    page.blank();
    page.paragraph(Line::new(Style::Accent, "  "), Style::Strong, &summary(array));
}

fn misses(page: &mut Page, array: &ArrayResult) {
    let columns = vec![
        names(""),
        numbers("count", WhenNarrow::Keep),
        numbers("of misses", WhenNarrow::Keep),
        texts("", WhenNarrow::Drop(1)),
    ];
    let mut table = Table::new(columns);
    let all = array.misses.total();
    let ratio = percent(all as f64 / array.references.total().max(1) as f64);
    let kind = format!("{ratio} of {} references", count(array.references.total()));
    table.row(vec![plain("misses"), plain(count(all)), Line::default(), Line::new(Style::Quiet, kind)]);
    let rows = [
        ("  compulsory", array.compulsory, "no array could hit"),
        ("  capacity", array.capacity, "a fully associative array of the same size has them too"),
        ("  conflict", array.conflict, "it has not"),
    ];
    for (name, misses, what) in rows {
        let share = percent(array.share_of_misses(misses));
        table.row(vec![plain(name), plain(count(misses)), plain(share), Line::new(Style::Quiet, what)]);
    }
    let what = "hits that it has not";
    table.row(vec![
        plain("spared"),
        plain(count(array.spared)),
        Line::default(),
        Line::new(Style::Quiet, what),
    ]);
    page.table(table);
}

/// The number of rows to show.
fn shown(page: &Page) -> usize {
    ROWS_SHOWN[usize::from(page.verbose)]
}

fn sets(page: &mut Page, array: &ArrayResult) {
    let most = array.misses_by_set.iter().zip(0u64..).max_by_key(|&(misses, set)| (*misses, !set));
    let least = array.misses_by_set.iter().zip(0u64..).min_by_key(|&(misses, set)| (*misses, set));
    if let (Some((most, at_most)), Some((least, at_least))) = (most, least) {
        let text = format!(
            "Sets: most in {at_most} ({}), fewest in {at_least} ({}); coefficient of variation {:.2}",
            count(*most),
            count(*least),
            array.variation
        );
        page.paragraph(Line::new(Style::Plain, "  "), Style::Plain, &text);
    }
    let columns = vec![
        numbers("set", WhenNarrow::Keep),
        numbers("misses", WhenNarrow::Keep),
        names("who"),
        names("evicts whom"),
        numbers("times", WhenNarrow::Keep),
        texts("by", WhenNarrow::Drop(1)),
    ];
    let mut table = Table::new(columns);
    for graph in array.graphs.iter().take(shown(page)) {
        for (number, edge) in graph.edges.iter().take(ARROWS_SHOWN).enumerate() {
            let first = |text: String| if number == 0 { plain(text) } else { Line::default() };
            let name = |node: usize| plain(printable(&page_name(&array.pages[graph.nodes[node].page])));
            table.row(vec![
                first(graph.set.to_string()),
                first(count(graph.misses)),
                name(edge.victimiser),
                name(edge.victim),
                plain(count(edge.count)),
                Line::new(Style::Quiet, printable(&edge.cause)),
            ]);
        }
    }
    page.table(table);
    if array.dropped > 0 {
        let text = format!("{} evictions are in no row: too many pairs of pages", count(array.dropped));
        page.paragraph(Line::new(Style::Warning, "  ! "), Style::Plain, &text);
    }
}

/// A table of rows that take part in evictions.
fn involvement(first: &str) -> Table {
    Table::new(vec![
        names(first),
        texts("", WhenNarrow::Drop(2)),
        numbers("misses", WhenNarrow::Keep),
        numbers("evicted", WhenNarrow::Keep),
        numbers("was evicted", WhenNarrow::Keep),
        numbers("involved", WhenNarrow::Drop(1)),
    ])
}

fn owners(page: &mut Page, array: &ArrayResult) {
    let mut table = involvement("file or memory");
    let rows: Vec<&OwnerRow> = array.owners.iter().take(shown(page)).collect();
    for owner in &rows {
        let kind = if owner.kind == "object" { "can move" } else { "" };
        table.row(vec![
            plain(printable(&owner.name)),
            Line::new(Style::Quiet, kind),
            plain(count(owner.misses.total())),
            plain(count(owner.evicted)),
            plain(count(owner.was_evicted)),
            plain(percent(array.share_of_misses(owner.involved()))),
        ]);
    }
    page.table(table);
    more(page, array.owners.len() as u64 - rows.len() as u64, "files and kinds of memory");
}

fn pages(page: &mut Page, array: &ArrayResult) {
    let mut table = involvement("page");
    let rows = array.pages.len().min(shown(page));
    for row in &array.pages[..rows] {
        table.row(vec![
            plain(printable(&page_name(row))),
            Line::new(Style::Quiet, format!("set {}", row.set)),
            plain(count(row.misses.total())),
            plain(count(row.evicted)),
            plain(count(row.was_evicted)),
            plain(percent(array.share_of_misses(row.involved()))),
        ]);
    }
    page.table(table);
    more(page, array.pages_in_all.saturating_sub(rows as u64), "pages");
}

fn more(page: &mut Page, hidden: u64, what: &str) {
    if hidden > 0 {
        page.line(Line::new(Style::Quiet, format!("  and {hidden} more {what}")));
    }
}
