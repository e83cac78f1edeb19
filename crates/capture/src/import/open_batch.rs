//! The batch that an importer fills, and its place in the stream.

use pagewalk_trace::{Batch, BatchBuffer, Dictionary, Ref};
use pagewalk_units::{RefIndex, SpaceId, ThreadId};

/// A batch being filled.
#[derive(Default)]
pub(super) struct OpenBatch {
    /// What is in it.
    pub buffer: BatchBuffer,
    /// Instructions in it.
    pub instructions: u64,
    /// References and instructions before it.
    references_before: u64,
    instructions_before: u64,
    handed_out: bool,
}

impl OpenBatch {
    /// Adds a reference.
    #[inline]
    pub fn push(&mut self, reference: Ref) {
        self.buffer.wide |= reference.size().bytes() > Batch::WIDE_BYTES;
        self.buffer.refs.push(reference);
    }

    /// Number of references of the stream so far.
    pub fn place(&self) -> RefIndex {
        RefIndex(self.references_before + self.buffer.refs.len() as u64)
    }

    /// The batch, of this thread and with these blocks; valid until [`OpenBatch::retire`].
    pub fn hand_out<'a>(&'a mut self, thread: ThreadId, blocks: &'a Dictionary) -> Batch<'a> {
        self.handed_out = true;
        Batch {
            space: SpaceId(0),
            thread,
            first: RefIndex(self.references_before),
            first_instruction: self.instructions_before,
            refs: &self.buffer.refs,
            spans: &self.buffer.spans,
            wide: self.buffer.wide,
            blocks,
        }
    }

    /// Makes room after the batch was handed out.
    pub fn retire(&mut self) {
        if std::mem::take(&mut self.handed_out) {
            self.references_before += self.buffer.refs.len() as u64;
            self.instructions_before += std::mem::take(&mut self.instructions);
            self.buffer.clear();
        }
    }
}
