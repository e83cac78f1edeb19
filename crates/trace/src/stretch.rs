//! Stretches of a stream, held in memory while several analyses process them in turn.

use crate::{Analysis, Batch, Dictionary, Event, Interleave, Item, Ref, Source, SourceError, Span};
use pagewalk_units::{RefIndex, SpaceId, ThreadId};

/// A stretch of a stream, or of several that take turns: its items, and the streams' blocks up to its end.
#[derive(Default)]
pub struct Stretch {
    refs: Vec<Ref>,
    spans: Vec<Span>,
    /// By stream.
    blocks: Vec<Dictionary>,
    items: Vec<HeldItem>,
}

enum HeldItem {
    Batch(HeldBatch),
    Event { at: RefIndex, event: Event },
    Turn(SpaceId),
}

/// A batch whose references end at `refs_end` and whose spans end at `spans_end` of the stretch.
struct HeldBatch {
    /// Index of its stream.
    stream: usize,
    space: SpaceId,
    thread: ThreadId,
    first: RefIndex,
    first_instruction: u64,
    refs_end: usize,
    spans_end: usize,
    wide: bool,
}

impl Stretch {
    /// Replaces the held items with items from `source`, until about `most` records (or as many events) are held;
    /// returns whether there were any. Always use the same source, whose blocks it keeps.
    pub fn read<S: Source>(&mut self, source: &mut S, most: usize) -> Result<bool, SourceError> {
        self.clear();
        while self.has_room(most) {
            match source.next_item()? {
                Some(item) => self.hold(0, item),
                None => break,
            }
        }
        Ok(!self.items.is_empty())
    }

    /// The same from several streams that take turns. Errors come with the stream's index.
    pub fn read_turns<S: Source>(
        &mut self,
        streams: &mut Interleave<S>,
        most: usize,
    ) -> Result<bool, (usize, SourceError)> {
        self.clear();
        let mut runs = None;
        while self.has_room(most) {
            let Some((stream, item)) = streams.next_item()? else { break };
            if runs != Some(stream) {
                runs = Some(stream);
                self.hold_turn(SpaceId(stream as u32));
            }
            self.hold(stream, item);
        }
        Ok(!self.items.is_empty())
    }

    /// Forgets the held items, but not the streams' blocks.
    pub fn clear(&mut self) {
        self.refs.clear();
        self.spans.clear();
        self.items.clear();
    }

    /// Whether fewer than `most` records and items are held.
    pub fn has_room(&self, most: usize) -> bool {
        self.records() < most && self.items.len() < most
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Held data references and block executions.
    pub fn records(&self) -> usize {
        self.refs.len() + self.spans.len()
    }

    fn hold(&mut self, stream: usize, item: Item<'_>) {
        match item {
            Item::Batch(batch) => self.hold_batch(stream, &batch),
            Item::Event { at, event } => self.items.push(HeldItem::Event { at, event }),
        }
    }

    /// Adds an event.
    pub fn hold_event(&mut self, at: RefIndex, event: &Event) {
        self.items.push(HeldItem::Event { at, event: event.clone() });
    }

    /// Adds a turn of the stream of this address space.
    pub fn hold_turn(&mut self, space: SpaceId) {
        self.items.push(HeldItem::Turn(space));
    }

    /// Adds a copy of a batch of this stream.
    pub fn hold_batch(&mut self, stream: usize, batch: &Batch<'_>) {
        self.refs.extend_from_slice(batch.refs);
        self.spans.extend_from_slice(batch.spans);
        if self.blocks.len() <= stream {
            self.blocks.resize_with(stream + 1, Dictionary::default);
        }
        let blocks = &mut self.blocks[stream];
        blocks.extend(batch.blocks.shared_since(blocks.len()));
        self.items.push(HeldItem::Batch(HeldBatch {
            stream,
            space: batch.space,
            thread: batch.thread,
            first: batch.first,
            first_instruction: batch.first_instruction,
            refs_end: self.refs.len(),
            spans_end: self.spans.len(),
            wide: batch.wide,
        }));
    }

    /// Passes everything held to `analysis`.
    pub fn play(&self, analysis: &mut dyn Analysis) {
        let (mut refs_start, mut spans_start) = (0, 0);
        for item in &self.items {
            match item {
                HeldItem::Event { at, event } => analysis.on_event(*at, event),
                HeldItem::Turn(space) => analysis.on_turn(*space),
                HeldItem::Batch(held) => {
                    analysis.on_batch(&Batch {
                        space: held.space,
                        thread: held.thread,
                        first: held.first,
                        first_instruction: held.first_instruction,
                        refs: &self.refs[refs_start..held.refs_end],
                        spans: &self.spans[spans_start..held.spans_end],
                        wide: held.wide,
                        blocks: &self.blocks[held.stream],
                    });
                    (refs_start, spans_start) = (held.refs_end, held.spans_end);
                }
            }
        }
    }
}
