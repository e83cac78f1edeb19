//! Walks by function: names for the instructions that caused them.

use super::{Namer, code_of_file, short};
use crate::waits::MachineWaits;
use pagewalk_mm::AddressSpace;
use pagewalk_report::schema::FunctionRow;
use pagewalk_report::{NO_SYMBOL, STRIPPED, printable};
use pagewalk_sim::FunctionWalks;
use pagewalk_symbols::{FileOffset, JitError, JitSymbols, Symbol};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::PoisonError;

impl Namer {
    /// Walks by function, summed over the instructions of each function and object; and why a map of JIT code was not
    /// used.
    pub(super) fn functions(
        &self,
        (pid, number): (u32, usize),
        walks: Vec<FunctionWalks>,
        space: &AddressSpace,
        waits: &MachineWaits,
    ) -> (Vec<FunctionRow>, Option<JitError>) {
        let mut symbols = self.symbols.lock().unwrap_or_else(PoisonError::into_inner);
        let mut jit = None;
        let mut rows: BTreeMap<(String, String), (FunctionRow, u64)> = BTreeMap::new();
        for walks in walks {
            let mut info = space.info(walks.mapping);
            let mut place = code_of_file(info).then_some(walks.file_offset);
            let mut symbol = place.map(|offset| {
                symbols.lookup_in_build(&info.name, info.build_id.as_deref(), FileOffset(offset))
            });
            // A missing file, such as a memfd, may be a container for JIT code, as anonymous memory is.
            let is_known = place.is_some() && Path::new(&info.name).is_file();
            if let Some(moved) = walks.moved.as_ref().filter(|_| !is_known) {
                let from = space.info(moved.from.mapping);
                let (build, offset) = (from.build_id.as_deref(), FileOffset(moved.from.offset));
                let code = (FileOffset(moved.offset), &*moved.code);
                if let Some(found) = symbols.lookup_copy(&from.name, build, offset, code) {
                    (info, place, symbol) = (from, Some(moved.from.offset), Some(found));
                }
            }
            let symbol = symbol.unwrap_or_default();
            let mut jitted = || {
                let jit = jit.get_or_insert_with(|| {
                    JitSymbols::of_process(pid, self.until.get(number).copied().flatten())
                });
                let jit = jit.as_ref().ok().and_then(Option::as_ref);
                jit.and_then(|jit| jit.find(walks.instruction)).map(str::to_owned)
            };
            let name = symbol.function.clone().or_else(|| if place.is_some() { None } else { jitted() });
            let name = name.unwrap_or_else(|| match place {
                Some(offset) => unnamed_in_file(&info.name, offset, &symbol),
                None => unnamed(&walks),
            });
            let row = FunctionRow {
                name: name.clone(),
                object: info.name.clone(),
                file: symbol.file,
                line: symbol.line,
                walks_fetch: 0,
                walks_data: 0,
                walk_cycles: 0,
                waits: waits.none(),
            };
            let (sum, costliest) = rows.entry((info.name.clone(), name)).or_insert((row.clone(), 0));
            sum.walks_fetch += walks.walks_fetch;
            sum.walks_data += walks.walks_data;
            sum.walk_cycles += walks.walk_cycles;
            waits.add(&mut sum.waits, &walks.waits);
            if walks.walk_references > *costliest {
                *costliest = walks.walk_references;
                (sum.file, sum.line) = (row.file, row.line);
            }
        }
        let mut rows: Vec<FunctionRow> = rows.into_values().map(|(row, _)| row).collect();
        // Stable: equal rows stay in order of object and name.
        rows.sort_by_key(|row| std::cmp::Reverse(row.walk_cycles));
        (rows, jit.and_then(Result::err))
    }
}

/// Why code that a program made has no names.
pub(super) fn no_jit_names(error: &JitError) -> String {
    format!("the names of code made while it ran: {}", printable(&error.to_string()))
}

/// The functions of several programs, costliest first. A file's are the same in all; other code is each program's own.
pub(super) fn joined(rows: Vec<FunctionRow>) -> Vec<FunctionRow> {
    let mut places: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut all: Vec<FunctionRow> = Vec::new();
    for row in rows {
        let place = match row.object.starts_with('/') {
            true => *places.entry((row.object.clone(), row.name.clone())).or_insert(all.len()),
            false => all.len(),
        };
        let Some(known) = all.get_mut(place) else {
            all.push(row);
            continue;
        };
        if row.walk_cycles > known.walk_cycles {
            (known.file, known.line) = (row.file, row.line);
        }
        known.walks_fetch += row.walks_fetch;
        known.walks_data += row.walks_data;
        known.walk_cycles = known.walk_cycles.saturating_add(row.walk_cycles);
        if let (Some(known), Some(row)) = (&mut known.waits, &row.waits) {
            known.add(row);
        }
    }
    all.sort_by_key(|row| Reverse(row.walk_cycles));
    all
}

/// Keeps the functions whose walks, and those whose waits, cost most: `many` each.
pub(super) fn keep_costliest(functions: &mut Vec<FunctionRow>, many: usize) {
    let waits = |row: &FunctionRow| row.waits.as_ref().map_or(0, |waits| waits.stall_cycles);
    let mut by_waits: Vec<u64> = functions.iter().map(waits).filter(|&cycles| cycles > 0).collect();
    by_waits.sort_unstable_by_key(|&cycles| Reverse(cycles));
    let least = by_waits.get(many.saturating_sub(1)).or(by_waits.last()).copied();
    let mut rank = 0;
    functions.retain(|row| {
        rank += 1;
        rank <= many || least.is_some_and(|least| waits(row) >= least)
    });
}

/// Names code of a file without a symbol by its function's start, or by its 4 KiB piece if that is unknown.
pub(crate) fn unnamed_in_file(file: &str, offset: u64, symbol: &Symbol) -> String {
    let why = if symbol.stripped { STRIPPED } else { NO_SYMBOL };
    let start = symbol.start.map_or(offset & !0xfff, |start| start.0);
    format!("{}{why}+{start:#x}", short(file))
}

/// Names code without file and symbol by its page.
fn unnamed(walks: &FunctionWalks) -> String {
    match walks.instruction.0 {
        0 => "(references without code)".to_owned(),
        address => format!("(no symbol, page {:#x})", address & !0xfff),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(object: &str, line: u32, walk_cycles: u64) -> FunctionRow {
        FunctionRow {
            name: "f".to_owned(),
            object: object.to_owned(),
            file: None,
            line: Some(line),
            walks_fetch: 1,
            walks_data: 2,
            walk_cycles,
            waits: None,
        }
    }

    #[test]
    fn programs_share_the_functions_of_files_alone() {
        let rows =
            [row("/a", 1, 10), row("[anonymous 4K]", 2, 7), row("/a", 3, 20), row("[anonymous 4K]", 4, 8)];
        let told = joined(rows.into());
        let told: Vec<_> = told.iter().map(|row| (row.object.as_str(), row.line, row.walk_cycles)).collect();
        assert_eq!(
            told,
            [("/a", Some(3), 30), ("[anonymous 4K]", Some(4), 8), ("[anonymous 4K]", Some(2), 7)]
        );
    }
}
