//! Each machine's arrays, walker and prices.

use super::{Cell, Column, Content, Part, Row, RowStyle, Section, Table, Terminal};
use crate::figures::{TlbFigures, array, description, level_misses, per_kilo_instruction, tlbs, whole};
use crate::numbers::{percent, ratio};
use crate::schema::{MachineDescription, MachineResult, Number, ProcessResult, RunResult};

pub(super) const SECTION: Section = Section {
    id: "tlbs",
    link: "TLBs",
    title: "The machine and its TLBs",
    lead: "All arrays of a level are looked up at once; a reference misses the level when no array holds its page. \
           Level 2, where there is one, is looked up after a miss in level 1; a miss in the last level is a page walk, \
           unless a prefetcher has the page.",
    terminal: Terminal::Never,
    make,
};

fn make(result: &RunResult, process: &ProcessResult) -> Option<Content> {
    let several = process.machines.len() > 1;
    let of = |machine: &MachineResult| {
        let shape = description(result, &machine.name);
        let heading = several.then(|| Part::Heading(machine.name.clone(), ""));
        let walker = shape.map(|shape| Part::Note(walker(shape, machine)));
        [heading, Some(Part::Table(table(machine, shape))), walker].into_iter().flatten().collect::<Vec<_>>()
    };
    let parts = process.machines.iter().flat_map(of).collect();
    Some(Content { finding: Some(finding(process.machines.first()?)), parts, ..Content::default() })
}

fn finding(machine: &MachineResult) -> String {
    let positive = |name| whole(machine, name).filter(|&count| count > 0);
    let (Some(references), Some(first)) = (positive("references"), positive("tlb.level1.misses")) else {
        return format!("Every reference hits the first level of {}", machine.name);
    };
    let share = percent(first as f64 / references as f64);
    let misses = format!("{share} of references miss the first level of {}", machine.name);
    match whole(machine, "tlb.level2.misses") {
        Some(second) => format!("{misses}, and {} of those walk", percent(second as f64 / first as f64)),
        None => misses,
    }
}

fn table(machine: &MachineResult, shape: Option<&MachineDescription>) -> Table {
    let arrays = tlbs(machine, shape);
    let prefetches = arrays.iter().any(|tlb| tlb.prefetches.is_some());
    let levels = level_misses(machine).into_iter().map(|(level, misses)| {
        let none = || Cell::Text(String::new());
        let cells = vec![
            Cell::Text(format!("Level {level}")),
            Cell::Text(level.to_string()),
            Cell::Text("missed every array of the level".to_owned()),
            none(),
            none(),
            none(),
            Cell::count(misses),
            none(),
            Cell::real(per_kilo_instruction(machine, misses), ratio),
        ];
        Row::new(RowStyle::Emphasised, cells)
    });
    let mut table = Table {
        columns: vec![
            Column::stays("Array"),
            Column::words("level", 0),
            Column::words("serves", 0),
            Column::words("pages", 0),
            Column::words("entries", 0),
            Column::stays("lookups"),
            Column::stays("misses"),
            Column::stays("miss ratio"),
            Column::stays("misses per 1000 instr."),
        ],
        rows: arrays.iter().map(|tlb| row(machine, tlb)).chain(levels).collect(),
        is_whole: true,
        ..Table::default()
    };
    if prefetches {
        table.columns.push(Column::stays("useful prefetches"));
        let told = arrays.iter().map(|tlb| Some((tlb.useful_prefetches()?, tlb.prefetches?.0)));
        for (row, told) in table.rows.iter_mut().zip(told.chain(std::iter::repeat(None))) {
            let cell = told.map(|(text, useful)| Cell::figure(text, useful as f64));
            row.cells.push(cell.unwrap_or_else(|| Cell::Text(String::new())));
        }
    }
    table
}

fn row(machine: &MachineResult, tlb: &TlbFigures<'_>) -> Row {
    let [level, serves, pages, entries] = tlb.description.map_or([const { String::new() }; 4], |shape| {
        let entries = array(shape.entries, shape.ways);
        [shape.level.to_string(), shape.serves.join(", "), shape.page_sizes.join(", "), entries]
    });
    let cells = vec![
        Cell::Text(tlb.name.to_owned()),
        Cell::Text(level),
        Cell::Text(serves),
        Cell::Text(pages),
        Cell::Text(entries),
        Cell::count(tlb.lookups),
        Cell::count(tlb.misses),
        Cell::real(tlb.miss_ratio(), percent),
        Cell::real(per_kilo_instruction(machine, tlb.misses), ratio),
    ];
    Row::new(if tlb.hits() == 0 { RowStyle::Minor } else { RowStyle::Plain }, cells)
}

/// The walker and its cost, in words.
fn walker(shape: &MachineDescription, machine: &MachineResult) -> String {
    let or_none = |list: Vec<String>| if list.is_empty() { "none".to_owned() } else { list.join(", ") };
    let caches = shape.walk_caches.iter().map(|cache| {
        let of = |what| whole(machine, &format!("walk_cache.{}.{what}", cache.name));
        let lookups = of("lookups").filter(|&lookups| lookups > 0);
        let share = lookups.zip(of("hits")).map_or(String::new(), |(lookups, hits)| {
            format!(", {} hits", percent(hits as f64 / lookups as f64))
        });
        format!("{} ({}{share})", cache.name, array(cache.entries, cache.ways))
    });
    let cost = shape.cost.iter().map(|(name, cycles)| match cycles {
        Number::Count(cycles) => format!("{name} {cycles}"),
        Number::Real(cycles) => format!("{name} {cycles}"),
    });
    // Older results give only the number of levels.
    let table = match shape.walker.as_str() {
        "" => format!("radix, {} levels", shape.walk_levels),
        walker => walker.to_owned(),
    };
    format!(
        "Page table: {table}. Page-walk caches: {}. Prices in cycles: {}.",
        or_none(caches.collect()),
        or_none(cost.collect())
    )
}
