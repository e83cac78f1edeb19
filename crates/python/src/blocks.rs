//! The blocks of code of a trace, as columns.

use arrow_array::{ArrayRef, RecordBatch, UInt32Array, UInt64Array};
use pagewalk::trace::{Analysis, Batch};
use std::sync::Arc;

/// What each block is, by number. An analysis, because the last batch of a stream knows all blocks.
#[derive(Default)]
pub struct BlockTable {
    address: Vec<u64>,
    bytes: Vec<u32>,
    instructions: Vec<u32>,
    references: Vec<u32>,
}

impl Analysis for BlockTable {
    fn on_batch(&mut self, batch: &Batch<'_>) {
        for block in batch.blocks.since(self.address.len()) {
            self.address.push(block.start().0);
            self.bytes.push(block.instructions.iter().map(|one| u32::from(one.length)).sum());
            self.instructions.push(block.instructions.len() as u32);
            self.references.push(block.sites.len() as u32);
        }
    }
}

impl BlockTable {
    /// The columns.
    pub fn finish(self) -> RecordBatch {
        let numbers = UInt32Array::from_iter_values(0..self.address.len() as u32);
        let columns: [(&str, ArrayRef); 5] = [
            ("block", Arc::new(numbers)),
            ("address", Arc::new(UInt64Array::from(self.address))),
            ("bytes", Arc::new(UInt32Array::from(self.bytes))),
            ("instructions", Arc::new(UInt32Array::from(self.instructions))),
            ("references", Arc::new(UInt32Array::from(self.references))),
        ];
        RecordBatch::try_from_iter(columns).expect("the columns are of one length")
    }
}
