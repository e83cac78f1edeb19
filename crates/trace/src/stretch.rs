//! Stretches of a stream, held in memory while everything that wants the stream takes them in turn.

use crate::{Analysis, Batch, Dictionary, Event, Item, Ref, Source, SourceError, Span};
use pagewalk_units::{RefIndex, SpaceId, ThreadId};

/// A stretch of a stream: its items, and the blocks of the stream up to its end.
#[derive(Default)]
pub struct Stretch {
    refs: Vec<Ref>,
    spans: Vec<Span>,
    blocks: Dictionary,
    items: Vec<HeldItem>,
}

enum HeldItem {
    Batch(HeldBatch),
    Event { at: RefIndex, event: Event },
}

/// A batch whose references end at `refs_end` and whose spans end at `spans_end` of the stretch.
struct HeldBatch {
    space: SpaceId,
    thread: ThreadId,
    first: RefIndex,
    first_instruction: u64,
    refs_end: usize,
    spans_end: usize,
    wide: bool,
}

impl Stretch {
    /// Takes items from `source`, in the place of those held, until about `most` records (or as many events) are held;
    /// says whether there were any. To be fed from one source only, whose blocks it keeps.
    pub fn read<S: Source>(&mut self, source: &mut S, most: usize) -> Result<bool, SourceError> {
        self.refs.clear();
        self.spans.clear();
        self.items.clear();
        while self.records() < most && self.items.len() < most {
            match source.next_item()? {
                Some(Item::Batch(batch)) => self.hold(&batch),
                Some(Item::Event { at, event }) => self.items.push(HeldItem::Event { at, event }),
                None => break,
            }
        }
        Ok(!self.items.is_empty())
    }

    /// Data references and block executions held.
    pub fn records(&self) -> usize {
        self.refs.len() + self.spans.len()
    }

    fn hold(&mut self, batch: &Batch<'_>) {
        self.refs.extend_from_slice(batch.refs);
        self.spans.extend_from_slice(batch.spans);
        for block in batch.blocks.since(self.blocks.len()) {
            self.blocks.intern(block.clone());
        }
        self.items.push(HeldItem::Batch(HeldBatch {
            space: batch.space,
            thread: batch.thread,
            first: batch.first,
            first_instruction: batch.first_instruction,
            refs_end: self.refs.len(),
            spans_end: self.spans.len(),
            wide: batch.wide,
        }));
    }

    /// Hands everything held to `analysis`.
    pub fn play(&self, analysis: &mut dyn Analysis) {
        let (mut refs_start, mut spans_start) = (0, 0);
        for item in &self.items {
            match item {
                HeldItem::Event { at, event } => analysis.on_event(*at, event),
                HeldItem::Batch(held) => {
                    analysis.on_batch(&Batch {
                        space: held.space,
                        thread: held.thread,
                        first: held.first,
                        first_instruction: held.first_instruction,
                        refs: &self.refs[refs_start..held.refs_end],
                        spans: &self.spans[spans_start..held.spans_end],
                        wide: held.wide,
                        blocks: &self.blocks,
                    });
                    (refs_start, spans_start) = (held.refs_end, held.spans_end);
                }
            }
        }
    }
}
