//! The spans of a batch by data reference.

use pagewalk_trace::Batch;

/// Finds the span that made a data reference, for many references of one batch. It is made when first asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct SpanIndex {
    /// By data reference, and some beyond; empty if not made.
    spans: Vec<u32>,
}

/// References that are set at once: most spans have no more.
const PIECE: usize = 8;

impl SpanIndex {
    /// Another batch comes.
    pub fn forget(&mut self) {
        self.spans.clear();
    }

    /// The span that made this data reference of the batch.
    #[inline]
    pub fn span_of(&mut self, batch: &Batch<'_>, data: usize) -> usize {
        if self.spans.is_empty() {
            self.make(batch);
        }
        self.spans[data] as usize
    }

    /// Later spans overwrite what is set beyond an earlier one.
    #[inline(never)]
    fn make(&mut self, batch: &Batch<'_>) {
        self.spans.resize(batch.refs.len() + PIECE, 0);
        for number in 0..batch.spans.len() {
            let mut first = batch.spans[number].first as usize;
            let end = batch.span_end(number);
            loop {
                self.spans[first..first + PIECE].fill(number as u32);
                first += PIECE;
                if first >= end {
                    break;
                }
            }
        }
    }
}
