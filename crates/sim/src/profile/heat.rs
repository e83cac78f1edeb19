//! Walks over address space and time, at a resolution that fits any run.
//!
//! Columns are equal numbers of instructions, rows equal pieces of one mapping. Both start fine and fold by two
//! whenever there are too many, so the map does not depend on the batches of the stream. Memory is bounded, except for
//! one row for each mapping with walks.

use pagewalk_mm::MappingId;
use pagewalk_units::{PageSize, VirtAddr};
use std::collections::{BTreeMap, BTreeSet};

/// Most columns; a long run uses at least half as many.
const COLUMNS_MAX: usize = 192;
/// Most rows beyond the first of each mapping.
const ROWS_MAX: usize = 192;

/// The data of the heat map.
#[derive(Clone, Debug)]
pub struct HeatMap {
    column_shift: u32,
    row_shift: u32,
    columns: usize,
    mappings: BTreeSet<MappingId>,
    rows: BTreeMap<(u64, MappingId), Row>,
}

/// Walks of one piece of a mapping, by column from the first with any.
#[derive(Clone, Debug)]
struct Row {
    first: usize,
    walks: Vec<u64>,
}

impl Row {
    fn new(first: usize) -> Row {
        Row { first, walks: Vec::new() }
    }

    /// Adds walks at a column; joins of rows come in any order.
    fn add(&mut self, column: usize, walks: u64) {
        if column < self.first {
            self.walks.splice(..0, std::iter::repeat_n(0, self.first - column));
            self.first = column;
        }
        let at = column - self.first;
        if self.walks.len() <= at {
            self.walks.resize(at + 1, 0);
        }
        self.walks[at] += walks;
    }

    fn each(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        (self.first..).zip(self.walks.iter().copied())
    }

    fn folded(&self) -> Row {
        let mut folded = Row::new(self.first / 2);
        self.each().for_each(|(column, walks)| folded.add(column / 2, walks));
        folded
    }
}

impl HeatMap {
    /// An empty map: 4,096 instructions by four pages at first.
    pub(crate) fn new(page: PageSize) -> HeatMap {
        HeatMap {
            column_shift: 12,
            row_shift: page.shift() + 2,
            columns: 0,
            mappings: BTreeSet::new(),
            rows: BTreeMap::new(),
        }
    }

    /// Instructions per column.
    pub fn instructions_per_column(&self) -> u64 {
        1 << self.column_shift
    }

    /// Columns in use.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Bytes per row.
    pub fn bytes_per_row(&self) -> u64 {
        1 << self.row_shift
    }

    /// Rows with walks by ascending address: first byte, mapping, walks per column.
    pub fn rows(&self) -> impl Iterator<Item = (VirtAddr, MappingId, Vec<u64>)> + '_ {
        self.rows.iter().map(|(&(row, mapping), found)| {
            let mut walks = vec![0; self.columns];
            found.each().for_each(|(column, count)| walks[column] = count);
            (VirtAddr(row << self.row_shift), mapping, walks)
        })
    }

    /// Covers the time up to an instruction.
    pub(crate) fn cover(&mut self, instructions: u64) {
        self.column_of(instructions);
    }

    /// The column of an instruction.
    fn column_of(&mut self, instructions: u64) -> usize {
        let mut column = (instructions >> self.column_shift) as usize;
        while column >= COLUMNS_MAX {
            self.fold_columns();
            column >>= 1;
        }
        self.columns = self.columns.max(column + 1);
        column
    }

    pub(crate) fn add(&mut self, address: VirtAddr, mapping: MappingId, instructions: u64) {
        let column = self.column_of(instructions);
        let key = (address.0 >> self.row_shift, mapping);
        let rows = self.rows.len();
        self.rows.entry(key).or_insert_with(|| Row::new(column)).add(column, 1);
        if self.rows.len() > rows {
            self.mappings.insert(mapping);
            // A mapping in several pieces ends up with one row.
            while self.rows.len() - self.mappings.len() > ROWS_MAX {
                self.fold_rows();
            }
        }
    }

    fn fold_columns(&mut self) {
        self.rows.values_mut().for_each(|row| *row = row.folded());
        self.column_shift += 1;
        self.columns = self.columns.div_ceil(2);
    }

    fn fold_rows(&mut self) {
        for ((row, mapping), found) in std::mem::take(&mut self.rows) {
            let into = self.rows.entry((row >> 1, mapping)).or_insert_with(|| Row::new(found.first));
            found.each().for_each(|(column, walks)| into.add(column, walks));
        }
        self.row_shift += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folding_keeps_every_walk_and_its_place() {
        let mut heat = HeatMap::new(PageSize::FOUR_KIB);
        for i in 0..10_000u64 {
            heat.add(VirtAddr((i * 7) << 12), MappingId((i % 2) as u32), i * 1000);
        }
        assert!(heat.columns() <= COLUMNS_MAX && heat.rows().count() <= ROWS_MAX + 2);
        assert_eq!(heat.rows().flat_map(|(_, _, walks)| walks).sum::<u64>(), 10_000);
        let expected_first = (0..10_000u64)
            .filter(|i| i % 2 == 0 && ((i * 7) << 12) < heat.bytes_per_row())
            .filter(|i| i * 1000 < heat.instructions_per_column())
            .count();
        let (start, mapping, walks) = heat.rows().next().unwrap();
        assert_eq!((start, mapping, walks[0]), (VirtAddr(0), MappingId(0), expected_first as u64));
    }

    /// As many mappings as desktop programs have: each keeps a row, and some detail remains.
    #[test]
    fn more_mappings_than_rows_are_kept_apart() {
        let mut heat = HeatMap::new(PageSize::FOUR_KIB);
        let mappings = 3 * ROWS_MAX as u64;
        for i in 0..100_000u64 {
            let (mapping, page) = (i % mappings, i / mappings % 16);
            heat.add(VirtAddr((mapping << 20) + (page << 14)), MappingId(mapping as u32), i * 100);
        }
        let mut walks: BTreeMap<MappingId, u64> = BTreeMap::new();
        for (start, mapping, row) in heat.rows() {
            assert_eq!(start.0 >> 20, u64::from(mapping.0));
            *walks.entry(mapping).or_default() += row.iter().sum::<u64>();
        }
        assert_eq!(walks.len() as u64, mappings);
        assert!(walks.iter().all(|(id, &walks)| {
            walks == (0..100_000).filter(|i| i % mappings == u64::from(id.0)).count() as u64
        }));
        assert!(heat.rows().count() <= ROWS_MAX + mappings as usize);
        assert!(heat.bytes_per_row() <= 1 << 20, "{:#x}", heat.bytes_per_row());
    }
}
