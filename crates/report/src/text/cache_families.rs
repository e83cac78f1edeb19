//! Families of caches on the terminal: a table for each line size; with `-v` another of conflict misses.

use super::Page;
use super::paint::{Line, Style, plain};
use super::table::{Table, WhenNarrow, numbers, texts};
use crate::numbers::bytes;
use crate::sweep::cache_families::{CacheTable, conflict_rate, rate, titles};
use crate::sweep::schema::{CacheFamilyCell, CacheMisses, SweepTrace};

pub(super) fn caches(page: &mut Page, trace: &SweepTrace, cell: &CacheFamilyCell) {
    let table = CacheTable::new(cell, page.verbose);
    let what = format!("misses per 1000 instructions, {} in lines of {} bytes", cell.serves, cell.line_bytes);
    let compulsory =
        format!(", of which {} compulsory; full: fully associative", rate(cell.compulsory, trace));
    page.paragraph(Line::new(Style::Quiet, "  "), Style::Quiet, &(what + &compulsory));
    write(page, &table, trace, |cache| rate(cache.all(), trace));
    if page.verbose {
        let what = "  of these conflict misses, all beyond the fully associative cache of the same size";
        page.line(Line::new(Style::Quiet, what));
        write(page, &table, trace, |cache| conflict_rate(cache.conflict, trace));
    }
}

fn write(page: &mut Page, table: &CacheTable, trace: &SweepTrace, figure: impl Fn(&CacheMisses) -> String) {
    let mut columns = vec![texts("size", WhenNarrow::Keep)];
    columns.extend(titles(table).map(|title| numbers(&title, WhenNarrow::Keep)));
    let mut lines = Table::new(columns);
    for (size, caches) in &table.rows {
        let full = caches.iter().flatten().next().map_or(String::new(), |cache| rate(cache.full, trace));
        let mut row = vec![plain(bytes(*size)), plain(full)];
        row.extend(caches.iter().map(|cache| plain(cache.as_ref().map_or("–".to_owned(), &figure))));
        lines.row(row);
    }
    page.table(lines);
}
