//! Batches: the unit in which references are passed on.

use crate::{Analysis, Dictionary, Event, Ref};
use pagewalk_units::{BlockId, RefIndex, SpaceId, ThreadId};

/// One execution of one block: 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Span {
    /// The block that ran.
    pub block: BlockId,
    /// Index in the batch of its first data reference; its last is just before the next span's first.
    pub first: u32,
}

/// What a source yields, in program order of one process: many references with their spans, or one
/// rare event at its exact place (after all references of the items before it).
#[derive(Debug)]
pub enum Item<'a> {
    /// References of one thread.
    Batch(Batch<'a>),
    /// A rare event.
    Event {
        /// Number of data references before the event.
        at: RefIndex,
        /// What happened.
        event: Event,
    },
}

impl Item<'_> {
    /// Gives it to an analysis.
    pub fn play(&self, to: &mut impl Analysis) {
        match self {
            Item::Batch(batch) => to.on_batch(batch),
            Item::Event { event, .. } if event.is_nothing() => {}
            Item::Event { at, event } => to.on_event(*at, event),
        }
    }
}

/// Many references of one thread, with the block executions that made them.
///
/// Spans are in order of execution and cover all `refs`: `spans[i]` made the references
/// `spans[i].first .. spans[i + 1].first` (the last one up to the end). A span's block has exactly as
/// many sites as the span has references.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// The address space.
    pub space: SpaceId,
    /// The thread.
    pub thread: ThreadId,
    /// Number of data references of the stream before this batch.
    pub first: RefIndex,
    /// Number of instructions of the stream before this batch.
    pub first_instruction: u64,
    /// The data references.
    pub refs: &'a [Ref],
    /// The block executions.
    pub spans: &'a [Span],
    /// Whether some reference is wider than [`Batch::WIDE_BYTES`] bytes; needed for fast page-crossing tests.
    pub wide: bool,
    /// The dictionary with every block that the spans name.
    pub blocks: &'a Dictionary,
}

impl Batch<'_> {
    /// Wider references make a batch wide.
    pub const WIDE_BYTES: u32 = 64;
    /// Most spans or references that a source puts into a batch, plus or minus one block.
    pub const TARGET_LEN: usize = 4096;

    /// Index one past the last data reference of span `span`.
    pub fn span_end(&self, span: usize) -> usize {
        self.spans.get(span + 1).map_or(self.refs.len(), |next| next.first as usize)
    }

    /// Index of data reference `site` of a span; the span's end if it has fewer.
    #[inline]
    pub fn reference_at(&self, span: usize, site: usize) -> usize {
        self.span_end(span).min(self.spans[span].first as usize + site)
    }

    /// Instructions executed in this batch.
    pub fn instructions(&self) -> u64 {
        self.spans.iter().map(|s| self.blocks.get(s.block).instructions.len() as u64).sum()
    }
}

/// The memory of a batch's references and executions: a source gives it away with its batch, in exchange for another,
/// where copying would cost too much.
#[derive(Debug, Default)]
pub struct BatchRoom {
    /// Data references, among unused ones.
    pub refs: Vec<Ref>,
    /// Where those of the batch begin.
    pub first_ref: usize,
    /// Block executions, followed by unused ones.
    pub spans: Vec<Span>,
}

/// The storage behind a batch, reused by sources.
#[derive(Clone, Debug, Default)]
pub struct BatchBuffer {
    /// Data references.
    pub refs: Vec<Ref>,
    /// Block executions.
    pub spans: Vec<Span>,
    /// See [`Batch::wide`].
    pub wide: bool,
}

impl BatchBuffer {
    /// Whether the buffer is full.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.refs.len() >= Batch::TARGET_LEN || self.spans.len() >= Batch::TARGET_LEN
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Clears the contents, keeps the memory.
    pub fn clear(&mut self) {
        self.refs.clear();
        self.spans.clear();
        self.wide = false;
    }
}
