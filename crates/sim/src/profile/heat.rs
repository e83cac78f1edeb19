//! Walks over address space and time, at a resolution that fits any run.
//!
//! Columns are equal numbers of instructions, rows equal pieces of one mapping. Both start fine and are
//! folded by two whenever there would be too many, so memory is bounded and the picture is the same
//! however the stream was cut into batches.

use pagewalk_mm::MappingId;
use pagewalk_units::{PageSize, VirtAddr};
use std::collections::BTreeMap;

/// Most columns; at least half as many are in use once a run is long enough.
const COLUMNS_MAX: usize = 192;
/// Most rows.
const ROWS_MAX: usize = 192;

/// The picture's data.
#[derive(Clone, Debug)]
pub struct HeatMap {
    column_shift: u32,
    row_shift: u32,
    columns: usize,
    rows: BTreeMap<(u64, MappingId), Vec<u64>>,
}

impl HeatMap {
    /// An empty picture: 4,096 instructions by four pages to begin with.
    pub(crate) fn new(page: PageSize) -> HeatMap {
        HeatMap { column_shift: 12, row_shift: page.shift() + 2, columns: 0, rows: BTreeMap::new() }
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
        self.rows.iter().map(|(&(row, mapping), walks)| {
            let mut walks = walks.clone();
            walks.resize(self.columns, 0);
            (VirtAddr(row << self.row_shift), mapping, walks)
        })
    }

    pub(crate) fn add(&mut self, address: VirtAddr, mapping: MappingId, instructions: u64) {
        let mut column = (instructions >> self.column_shift) as usize;
        while column >= COLUMNS_MAX {
            self.fold_columns();
            column >>= 1;
        }
        self.columns = self.columns.max(column + 1);
        let row = self.rows.entry((address.0 >> self.row_shift, mapping)).or_default();
        if row.len() <= column {
            row.resize(column + 1, 0);
        }
        row[column] += 1;
        while self.rows.len() > ROWS_MAX {
            self.fold_rows();
        }
    }

    fn fold_columns(&mut self) {
        for walks in self.rows.values_mut() {
            *walks = walks.chunks(2).map(|pair| pair.iter().sum()).collect();
        }
        self.column_shift += 1;
        self.columns = self.columns.div_ceil(2);
    }

    fn fold_rows(&mut self) {
        let rows = std::mem::take(&mut self.rows);
        for ((row, mapping), walks) in rows {
            let into = self.rows.entry((row >> 1, mapping)).or_default();
            if into.len() < walks.len() {
                into.resize(walks.len(), 0);
            }
            into.iter_mut().zip(walks).for_each(|(sum, n)| *sum += n);
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
        assert!(heat.columns() <= COLUMNS_MAX && heat.rows().count() <= ROWS_MAX);
        assert_eq!(heat.rows().flat_map(|(_, _, walks)| walks).sum::<u64>(), 10_000);
        let expected_first = (0..10_000u64)
            .filter(|i| i % 2 == 0 && ((i * 7) << 12) < heat.bytes_per_row())
            .filter(|i| i * 1000 < heat.instructions_per_column())
            .count();
        let (start, mapping, walks) = heat.rows().next().unwrap();
        assert_eq!((start, mapping, walks[0]), (VirtAddr(0), MappingId(0), expected_first as u64));
    }
}
