//! A batch in parts, for sources that put something between its executions.

use crate::{Batch, BatchBuffer, Dictionary};
use pagewalk_units::{RefIndex, SpaceId, ThreadId};

/// A copy of a source's batch that is yielded in parts: yielded items must not borrow from the source. Always use the
/// same source, whose blocks it keeps.
pub struct BatchParts {
    blocks: Dictionary,
    buffer: BatchBuffer,
    space: SpaceId,
    thread: ThreadId,
    first: RefIndex,
    first_instruction: u64,
    /// Yielded spans.
    done: usize,
}

impl Default for BatchParts {
    fn default() -> BatchParts {
        BatchParts {
            blocks: Dictionary::default(),
            buffer: BatchBuffer::default(),
            space: SpaceId(0),
            thread: ThreadId(0),
            first: RefIndex(0),
            first_instruction: 0,
            done: 0,
        }
    }
}

impl BatchParts {
    /// Replaces the batch.
    pub fn copy(&mut self, batch: &Batch<'_>) {
        self.blocks.extend(batch.blocks.shared_since(self.blocks.len()));
        self.buffer.clear();
        self.buffer.refs.extend_from_slice(batch.refs);
        self.buffer.spans.extend_from_slice(batch.spans);
        self.buffer.wide = batch.wide;
        (self.space, self.thread, self.first) = (batch.space, batch.thread, batch.first);
        (self.first_instruction, self.done) = (batch.first_instruction, 0);
    }

    /// Whether all of the batch has been yielded.
    pub fn is_used_up(&self) -> bool {
        self.done == self.buffer.spans.len()
    }

    /// What has not been yielded. Its spans count from the first reference of the copied batch.
    pub fn rest(&self) -> Batch<'_> {
        Batch {
            space: self.space,
            thread: self.thread,
            first: self.first,
            first_instruction: self.first_instruction,
            refs: &self.buffer.refs,
            spans: &self.buffer.spans[self.done..],
            wide: self.buffer.wide,
            blocks: &self.blocks,
        }
    }

    /// Yields the next `executions`, of those that are left.
    pub fn part(&mut self, executions: usize) -> Batch<'_> {
        let from = self.done;
        self.done = (from + executions).min(self.buffer.spans.len());
        let refs = self.buffer.refs.len();
        let first_of = |span: usize| self.buffer.spans.get(span).map_or(refs, |span| span.first as usize);
        let (start, end) = (first_of(from), first_of(self.done));
        let spans = &mut self.buffer.spans[from..self.done];
        // Spans in the part count from its own first reference.
        spans.iter_mut().for_each(|span| span.first -= start as u32);
        let part = Batch {
            space: self.space,
            thread: self.thread,
            first: RefIndex(self.first.0 + start as u64),
            first_instruction: self.first_instruction,
            refs: &self.buffer.refs[start..end],
            spans,
            wide: self.buffer.wide,
            blocks: &self.blocks,
        };
        self.first_instruction += part.instructions();
        part
    }
}
