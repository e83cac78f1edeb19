//! References of a trace, decoded into batches of columns.

use arrow_array::{RecordBatch, UInt8Array, UInt16Array, UInt32Array, UInt64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use pagewalk::capture::Window;
use pagewalk::trace::{Batch, Item, Source, SourceError};
use pagewalk::traces::TraceReader;
use std::sync::{Arc, LazyLock};

/// The columns: what [`Columns`] holds, in its order.
pub static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    let field = |name: &str, kind: DataType| Field::new(name, kind, false);
    Arc::new(Schema::new(vec![
        field("index", DataType::UInt64),
        field("address", DataType::UInt64),
        field("kind", DataType::UInt8),
        field("size", DataType::UInt16),
        field("block", DataType::UInt32),
        field("thread", DataType::UInt32),
        field("instruction", DataType::UInt64),
    ]))
});

/// Columns while they grow.
#[derive(Default)]
struct Columns {
    index: Vec<u64>,
    address: Vec<u64>,
    kind: Vec<u8>,
    size: Vec<u16>,
    block: Vec<u32>,
    thread: Vec<u32>,
    instruction: Vec<u64>,
}

impl Columns {
    fn add(&mut self, batch: &Batch<'_>) {
        let refs = batch.refs;
        let first = batch.first.0;
        self.index.extend(first..first + refs.len() as u64);
        self.address.extend(refs.iter().map(|reference| reference.address().0));
        self.kind.extend(refs.iter().map(|reference| reference.kind() as u8));
        // The largest size is 32,768 bytes.
        self.size.extend(refs.iter().map(|reference| reference.size().bytes() as u16));
        self.thread.resize(self.thread.len() + refs.len(), batch.thread.0);
        let mut instruction = batch.first_instruction;
        for (number, span) in batch.spans.iter().enumerate() {
            let length = self.block.len() + batch.span_end(number) - span.first as usize;
            self.block.resize(length, span.block.0);
            self.instruction.resize(length, instruction);
            instruction += batch.blocks.get(span.block).instructions.len() as u64;
        }
    }

    fn finish(self) -> RecordBatch {
        let columns: Vec<arrow_array::ArrayRef> = vec![
            Arc::new(UInt64Array::from(self.index)),
            Arc::new(UInt64Array::from(self.address)),
            Arc::new(UInt8Array::from(self.kind)),
            Arc::new(UInt16Array::from(self.size)),
            Arc::new(UInt32Array::from(self.block)),
            Arc::new(UInt32Array::from(self.thread)),
            Arc::new(UInt64Array::from(self.instruction)),
        ];
        RecordBatch::try_new(Arc::clone(&SCHEMA), columns).expect("the columns are those of the schema")
    }
}

/// Batches of at least `rows` references, but the last.
pub struct References {
    source: Window<TraceReader>,
    rows: usize,
    /// The damage after the batch before.
    damage: Option<SourceError>,
}

impl References {
    /// Batches of a source of at least `rows` references each.
    pub fn new(source: Window<TraceReader>, rows: usize) -> References {
        References { source, rows, damage: None }
    }

    /// The next batch, or `None` at the end.
    ///
    /// # Errors
    /// If the trace is damaged there.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>, SourceError> {
        if let Some(damage) = self.damage.take() {
            return Err(damage);
        }
        let mut columns = Columns::default();
        while columns.index.len() < self.rows {
            match self.source.next_item() {
                Ok(Some(Item::Batch(batch))) => columns.add(&batch),
                Ok(Some(Item::Event { .. })) => {}
                Ok(None) => break,
                Err(error) if columns.index.is_empty() => return Err(error),
                Err(error) => {
                    self.damage = Some(error);
                    break;
                }
            }
        }
        Ok((!columns.index.is_empty()).then(|| columns.finish()))
    }
}
