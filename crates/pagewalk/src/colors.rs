//! Misses in the second-level cache by the color of the page.
//!
//! Under the host's kernel, physical addresses equal virtual ones: a page's number tells its color. A reference that
//! crosses into the next page counts for the page in which it begins, as in all tables of pages, and so do its misses
//! there.

use pagewalk_mm::MappingId;
use pagewalk_report::schema::{ColorColumn, ColorMisses, ColorPage, ColorPart};
use pagewalk_sim::{Waits, colored_second_level};
use pagewalk_translate::MachineSpec;
use pagewalk_units::VirtAddr;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Columns at most: of more colors, neighbours share one.
const COLUMNS_MAX: u64 = 128;
/// Mappings with parts of their own at most.
const PARTS_MAX: usize = 7;
/// Pages named in each column at most.
const PAGES_MAX: usize = 3;
/// The name of the part for all other mappings.
const OTHERS: &str = "other mappings";

/// What pages missed, by mapping and address.
type PageWaits = BTreeMap<(MappingId, VirtAddr), Waits>;

/// The misses of a machine's private second-level cache by color; none if there is no such cache, its pages have no
/// colors, another cache shares its level, or nothing missed. `name` names a mapping.
pub fn color_misses(
    machine: &MachineSpec,
    pages: &PageWaits,
    name: impl Fn(MappingId) -> String,
) -> Option<ColorMisses> {
    let cache = colored_second_level(machine)?;
    let is_alone = machine.caches.iter().filter(|other| other.level == cache.level).count() == 1;
    let base = machine.paging.base();
    let colors = cache.colors(base.bytes()).ok().filter(|_| is_alone)?;
    let colors_per_column = colors.div_ceil(COLUMNS_MAX);
    let columns = colors.div_ceil(colors_per_column) as usize;
    let column = |page: VirtAddr| (base.number(page) % colors / colors_per_column) as usize;
    let level = usize::from(cache.level) - 1;
    let mut of_mappings: BTreeMap<MappingId, Vec<u64>> = BTreeMap::new();
    let mut of_columns: Vec<Vec<(u64, VirtAddr, MappingId)>> = vec![Vec::new(); columns];
    let missed = pages.iter().map(|(&(mapping, page), waits)| (mapping, page, waits.misses[level]));
    for (mapping, page, misses) in missed.filter(|&(.., misses)| misses > 0) {
        of_mappings.entry(mapping).or_insert_with(|| vec![0; columns])[column(page)] += misses;
        of_columns[column(page)].push((misses, page, mapping));
    }
    (!of_mappings.is_empty()).then(|| ColorMisses {
        cache: cache.name.clone(),
        colors,
        colors_per_column,
        ways: cache.geometry.ways() as u64,
        parts: parts(of_mappings, &name),
        columns: of_columns.into_iter().map(|pages| worst(pages, &name)).collect(),
    })
}

/// The mappings with most misses, then all others together.
fn parts(of_mappings: BTreeMap<MappingId, Vec<u64>>, name: impl Fn(MappingId) -> String) -> Vec<ColorPart> {
    let mut all: Vec<(MappingId, Vec<u64>)> = of_mappings.into_iter().collect();
    all.sort_by_key(|(mapping, misses)| (Reverse(misses.iter().sum::<u64>()), *mapping));
    let others = all.split_off(all.len().min(PARTS_MAX));
    let mut parts: Vec<ColorPart> =
        all.into_iter().map(|(mapping, misses)| ColorPart { mapping: name(mapping), misses }).collect();
    if let Some(columns) = others.first().map(|(_, misses)| misses.len()) {
        let sum = |column: usize| others.iter().map(|(_, misses)| misses[column]).sum();
        parts.push(ColorPart { mapping: OTHERS.to_owned(), misses: (0..columns).map(sum).collect() });
    }
    parts
}

/// The pages of a column that miss most.
fn worst(mut pages: Vec<(u64, VirtAddr, MappingId)>, name: impl Fn(MappingId) -> String) -> ColorColumn {
    let all = pages.len() as u64;
    pages.sort_by_key(|&(misses, page, mapping)| (Reverse(misses), page, mapping));
    pages.truncate(PAGES_MAX);
    let page = |(misses, page, mapping): (u64, VirtAddr, MappingId)| ColorPage {
        address: page.0,
        mapping: name(mapping),
        misses,
    };
    ColorColumn { pages: all, worst: pages.into_iter().map(page).collect() }
}
