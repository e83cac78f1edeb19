//! Families of caches: a table for each line size, with sizes as rows and ways as columns.

use super::markup::{head, number};
use super::schema::{CacheFamilyCell, CacheMisses, SweepResult, SweepTrace};
use crate::html::escape;
use crate::numbers::{bytes, ratio};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Caches smaller than this are left out of tables that do not show all.
const LEAST_BYTES: u64 = 1024;

const LEAD: &str = "<h2>Families of LRU caches</h2><p class=\"lead\">Misses per 1000 instructions of every cache of \
so many ways, by its size. Addresses are virtual, each reference brings in its lines, and no prefetcher runs. \
<em>Full</em> is a fully associative cache of that size: it has the compulsory misses, the first touches of lines, and \
the capacity misses. Under each figure is what sets add to that, the conflict misses; they are negative where sets \
keep lines that the full cache replaces.</p>";

/// The table of a cell.
pub(crate) struct CacheTable {
    /// The columns.
    pub ways: Vec<u32>,
    /// The rows: the size in bytes, and the cache of each column, if there is one of that size.
    pub rows: Vec<(u64, Vec<Option<CacheMisses>>)>,
}

impl CacheTable {
    /// With many ways, powers of two alone. `all`: small caches too.
    pub fn new(cell: &CacheFamilyCell, all: bool) -> CacheTable {
        let is_shown = |ways: &u32| cell.ways.len() <= 8 || ways.is_power_of_two();
        let ways: Vec<u32> = cell.ways.iter().copied().filter(is_shown).collect();
        let mut rows: BTreeMap<u64, Vec<Option<CacheMisses>>> = BTreeMap::new();
        for cache in cell.caches().filter(|cache| all || cache.bytes >= LEAST_BYTES) {
            if let Some(column) = ways.iter().position(|&ways| ways == cache.ways) {
                rows.entry(cache.bytes).or_insert_with(|| vec![None; ways.len()])[column] = Some(cache);
            }
        }
        CacheTable { ways, rows: rows.into_iter().collect() }
    }
}

/// Titles of the columns after the size.
pub(crate) fn titles(table: &CacheTable) -> impl Iterator<Item = String> + '_ {
    let named = |&ways: &u32| if ways == 1 { "1 way".to_owned() } else { format!("{ways} ways") };
    std::iter::once("full".to_owned()).chain(table.ways.iter().map(named))
}

/// Misses per 1000 instructions.
pub(crate) fn rate(misses: u64, trace: &SweepTrace) -> String {
    ratio(misses as f64 * 1000.0 / trace.instructions.max(1) as f64)
}

/// Conflict misses per 1000 instructions, with their sign.
pub(crate) fn conflict_rate(misses: i64, trace: &SweepTrace) -> String {
    let sign = if misses < 0 { "−" } else { "+" };
    format!("{sign}{}", rate(misses.unsigned_abs(), trace))
}

/// The section of a study's page; empty without such families.
pub(super) fn section(result: &SweepResult) -> String {
    if result.cache_families.is_empty() {
        return String::new();
    }
    let mut out = LEAD.to_owned();
    for cell in &result.cache_families {
        let trace = &result.traces[cell.trace];
        let _ = write!(
            out,
            "<h3>{}<span class=\"sub\">{}, lines of {} bytes, {} compulsory misses per 1000 instructions</span></h3>{}",
            escape(&trace.name),
            escape(&cell.serves),
            cell.line_bytes,
            rate(cell.compulsory, trace),
            html_table(&CacheTable::new(cell, false), trace)
        );
    }
    out
}

fn html_table(table: &CacheTable, trace: &SweepTrace) -> String {
    let names: Vec<String> = titles(table).collect();
    let columns = names.iter().map(|name| (name.as_str(), true));
    let titles: Vec<(&str, bool)> = std::iter::once(("size", true)).chain(columns).collect();
    let cell = |cache: &Option<CacheMisses>| {
        cache.map_or_else(
            || number("–"),
            |cache| {
                let conflict = conflict_rate(cache.conflict, trace);
                number(&format!("{}<span class=\"sub\">{conflict}</span>", rate(cache.all(), trace)))
            },
        )
    };
    let row = |(size, caches): &(u64, Vec<Option<CacheMisses>>)| {
        let full = caches.iter().flatten().next().map_or(String::new(), |cache| rate(cache.full, trace));
        let cells: String = caches.iter().map(cell).collect();
        format!("<tr>{}{}{cells}</tr>", number(&bytes(*size)), number(&full))
    };
    let rows: String = table.rows.iter().map(row).collect();
    format!("<div class=\"scroll\"><table>{}<tbody>{rows}</tbody></table></div>", head(&titles))
}
