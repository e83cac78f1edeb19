//! The spans of a batch by data reference.

use pagewalk_trace::Batch;
use std::ops::Range;

/// Finds the span that made a data reference, for many references of some spans of a batch. It is made when first
/// asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct SpanIndex {
    /// By data reference, and some beyond; of these spans alone.
    spans: Vec<u32>,
    of: Range<usize>,
    is_made: bool,
}

/// References that are set at once: most spans have no more.
const PIECE: usize = 8;

impl SpanIndex {
    /// Other spans come.
    pub fn begin(&mut self, of: Range<usize>) {
        (self.of, self.is_made) = (of, false);
    }

    /// The span that made this data reference of the batch.
    #[inline]
    pub fn span_of(&mut self, batch: &Batch<'_>, data: usize) -> usize {
        if !self.is_made {
            self.make(batch);
        }
        self.spans[data] as usize
    }

    /// Later spans overwrite what is set beyond an earlier one.
    #[inline(never)]
    fn make(&mut self, batch: &Batch<'_>) {
        let room = batch.refs.len() + PIECE;
        self.spans.resize(room.max(self.spans.len()), 0);
        for number in self.of.clone() {
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
        self.is_made = true;
    }
}
