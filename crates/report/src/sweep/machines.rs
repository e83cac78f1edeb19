//! The table of machines on one trace, for the terminal and for pages.

use super::comparison::{bases, figure, host_is_among, killed, mcpi, memory_added, signed, time_saved};
use super::schema::MachineCell;
use crate::kernel_costs::{HOSTS_MEMORY, HOSTS_WORK};
use crate::metrics::parts_of;
use crate::numbers::{count, percent, ratio};
use crate::schema::Number;
use crate::sections::{Cell, Column, Row, RowStyle, Table};
use std::collections::BTreeSet;

/// What a cell shows, given the machine's cell under its first kernel.
pub(super) type MakeCell = Box<dyn Fn(&MachineCell, &MachineCell) -> Cell>;

/// The title of the column of memory.
const MEMORY: &str = "memory backed";

/// A row for each cell of a trace.
pub(crate) fn machines(cells: &[&MachineCell]) -> Table {
    let columns = columns(cells);
    let row = |(cell, base): (&&MachineCell, &MachineCell)| {
        Row::new(RowStyle::Plain, columns.iter().map(|(_, make)| make(cell, base)).collect())
    };
    let rows = cells.iter().zip(bases(cells)).map(row).collect();
    let columns = columns.into_iter().map(|(column, _)| column).collect();
    let mut table =
        Table { columns, rows, remarks: killed_programs(cells), is_whole: true, ..Table::default() };
    table.leave_out_unknown();
    if host_is_among(cells.iter().copied()) {
        let has_memory = table.columns.iter().any(|column| column.title == MEMORY);
        let told = [Some(HOSTS_WORK), has_memory.then_some(HOSTS_MEMORY)];
        table.remarks.push(("", told.into_iter().flatten().collect::<Vec<_>>().join(" ")));
    }
    table
}

/// Remarks on programs that were killed for lack of memory: one for all that a kernel killed at one place.
pub(super) fn killed_programs(cells: &[&MachineCell]) -> Vec<(&'static str, String)> {
    let mut places: Vec<((&str, String), Vec<String>)> = Vec::new();
    for cell in cells {
        let Some(killed) = killed(cell) else { continue };
        let place = (cell.os.as_deref().unwrap_or_default(), killed);
        let on = cell.title("os");
        match places.iter_mut().find(|(known, _)| *known == place) {
            Some((_, all)) => all.push(on),
            None => places.push((place, vec![on])),
        }
    }
    let told = |((kernel, killed), on): ((&str, String), Vec<String>)| {
        format!("{kernel} on {} was {killed}. Its figures end there.", on.join("; on "))
    };
    places.into_iter().map(|place| ("killed", told(place))).collect()
}

/// The columns that some cell has something for.
fn columns(cells: &[&MachineCell]) -> Vec<(Column, MakeCell)> {
    let mut columns = names(cells);
    columns.extend([
        (Column::goes("L1 TLB misses", 2), whole("tlb.level1.misses")),
        (Column::stays("walks"), whole("walks")),
        (Column::goes("walks per 1000 instr.", 1), real("walks_per_kilo_instruction", ratio)),
    ]);
    let caches: BTreeSet<&str> =
        cells.iter().flat_map(|cell| cell.metrics.keys()).filter_map(|key| cache_of_misses(key)).collect();
    columns.extend(caches.iter().map(|name| {
        let title = format!("{name} misses per 1000 instr.");
        (Column::goes(title, 3), cache_misses((*name).to_owned()))
    }));
    columns.push((Column::stays("walk cycles of all"), real("walk_cycle_share", percent)));
    if !caches.is_empty() {
        columns.push((Column::stays("waits for memory of all"), Box::new(|cell, _| waits(cell))));
    }
    let has_kernels = cells.iter().any(|cell| cell.os.is_some());
    if has_kernels || !caches.is_empty() {
        let cycles: MakeCell = Box::new(|cell, _| Cell::figure(figure(mcpi(cell)), mcpi(cell)));
        let of = if caches.is_empty() { "translation" } else { "memory system" };
        // The host's kernel counts nothing of its own.
        let and = if has_kernels { " and kernel" } else { "" };
        columns.push((Column::stays(format!("{of}{and} cycles per instr.")), cycles));
    }
    if has_kernels {
        let saved: MakeCell = Box::new(|cell, base| Cell::real(time_saved(cell, base), signed));
        columns.push((Column::stays("time saved"), saved));
        let added: MakeCell = Box::new(|cell, base| Cell::real(memory_added(cell, base), signed));
        columns.push((Column::stays(MEMORY), added));
    }
    columns
}

/// What tells rows apart: machine, kernel, structure, and the keys that the study varies.
pub(super) fn names(cells: &[&MachineCell]) -> Vec<(Column, MakeCell)> {
    let named = |name: &Option<String>| Cell::Text(name.as_deref().unwrap_or("–").to_owned());
    let machine: MakeCell =
        Box::new(|cell, _| Cell::named(cell.machine.as_str(), killed(cell).unwrap_or_default()));
    let mut columns = vec![(Column::stays("machine"), machine)];
    if cells.iter().any(|cell| cell.os.is_some()) {
        columns.push((Column::words("kernel", 0), Box::new(move |cell, _| named(&cell.os))));
    }
    if cells.iter().any(|cell| cell.structure.is_some()) {
        columns.push((Column::words("structure", 0), Box::new(move |cell, _| named(&cell.structure))));
    }
    let keys: BTreeSet<&String> = cells.iter().flat_map(|cell| cell.parameters.keys()).collect();
    for key in keys {
        let own = key.clone();
        let value: MakeCell = Box::new(move |cell, _| {
            Cell::Text(cell.parameters.get(&own).map_or("–".to_owned(), ToString::to_string))
        });
        columns.push((Column::words(key.as_str(), 0), value));
    }
    columns
}

fn whole(name: &'static str) -> MakeCell {
    Box::new(move |cell, _| match cell.metrics.get(name) {
        Some(Number::Count(n)) => Cell::figure(count(*n), *n as f64),
        _ => Cell::or_dash(None),
    })
}

fn real(name: &'static str, write: fn(f64) -> String) -> MakeCell {
    Box::new(move |cell, _| Cell::real(cell.metrics.get(name).map(|number| number.as_f64()), write))
}

/// The cache whose misses a counter counts.
fn cache_of_misses(key: &str) -> Option<&str> {
    Some(parts_of("cache.{cache}.{requester}_misses", key)?[0])
}

/// Misses of a cache, of all its requesters, per thousand instructions.
fn cache_misses(name: String) -> MakeCell {
    Box::new(move |cell, _| {
        let own = cell.metrics.iter().filter(|(key, _)| cache_of_misses(key) == Some(&*name));
        let of_cache = own.map(|(_, number)| number.as_f64());
        let misses = of_cache.reduce(|sum, own| sum + own);
        let instructions =
            cell.metrics.get("instructions").map(|number| number.as_f64()).filter(|&n| n > 0.0);
        Cell::real(misses.zip(instructions).map(|(misses, all)| misses * 1000.0 / all), ratio)
    })
}

/// Waits for caches and memory as a share of all modelled cycles.
fn waits(cell: &MachineCell) -> Cell {
    let of = |name: &str| cell.metrics.get(name).map(|number| number.as_f64());
    let share = of("memory.stall_cycles").zip(of("total_cycles").filter(|&all| all > 0.0));
    Cell::real(share.map(|(waits, all)| waits / all), percent)
}
