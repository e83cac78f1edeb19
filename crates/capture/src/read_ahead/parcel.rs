//! Several items of a stream, in transit from decoder to consumer.

use pagewalk_trace::{Batch, BatchRoom, Block, Dictionary, Event, Item, Ref, SourceError, Span};
use pagewalk_units::{RefIndex, SpaceId, ThreadId};
use std::ops::Range;
use std::sync::Arc;

/// A parcel is full at this many references and block executions.
const PARCEL_RECORDS: usize = 1 << 16;
/// Smaller batches are copied instead of given a room.
const ROOM_RECORDS: usize = Batch::TARGET_LEN / 2;

/// A batch's place in its parcel, and its other properties.
struct Cut {
    space: SpaceId,
    thread: ThreadId,
    first: RefIndex,
    first_instruction: u64,
    wide: bool,
    /// The index of its room, or `None` if it was copied.
    room: Option<usize>,
    refs: Range<usize>,
    spans: Range<usize>,
}

enum Piece {
    Batch(Cut),
    Event { at: RefIndex, event: Event },
    Failed(SourceError),
}

/// Several items together: passing each one alone would cost more than decoding it.
#[derive(Default)]
pub(super) struct Parcel {
    /// Copied references.
    refs: Vec<Ref>,
    spans: Vec<Span>,
    /// Rooms of batches; those from `rooms_taken` on are free.
    rooms: Vec<BatchRoom>,
    rooms_taken: usize,
    /// References and block executions.
    records: usize,
    /// Blocks that no earlier parcel contains.
    blocks: Vec<Arc<Block>>,
    pieces: Vec<Piece>,
}

impl Parcel {
    /// Adds a batch; returns whether the next taken room must be the batch's.
    pub fn add(&mut self, batch: &Batch<'_>, known: &mut usize, gives_rooms: bool) -> bool {
        self.blocks.extend_from_slice(batch.blocks.shared_since(*known));
        *known = batch.blocks.len();
        let records = batch.refs.len() + batch.spans.len();
        let moves = gives_rooms && records >= ROOM_RECORDS;
        let (refs, spans) = if moves { (0, 0) } else { (self.refs.len(), self.spans.len()) };
        if !moves {
            self.refs.extend_from_slice(batch.refs);
            self.spans.extend_from_slice(batch.spans);
        }
        self.records += records;
        self.pieces.push(Piece::Batch(Cut {
            space: batch.space,
            thread: batch.thread,
            first: batch.first,
            first_instruction: batch.first_instruction,
            wide: batch.wide,
            room: moves.then_some(self.rooms_taken),
            refs: refs..refs + batch.refs.len(),
            spans: spans..spans + batch.spans.len(),
        }));
        moves
    }

    /// A room to exchange for a batch's.
    pub fn take_room(&mut self) -> &mut BatchRoom {
        let taken = self.rooms_taken;
        self.rooms_taken += 1;
        if taken == self.rooms.len() {
            self.rooms.push(BatchRoom::default());
        }
        &mut self.rooms[taken]
    }

    /// Adds an event.
    pub fn add_event(&mut self, at: RefIndex, event: Event) {
        self.pieces.push(Piece::Event { at, event });
    }

    /// Adds the error that ends the stream.
    pub fn add_error(&mut self, error: SourceError) {
        self.pieces.push(Piece::Failed(error));
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Items in it.
    pub fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Whether it should be sent.
    pub fn is_full(&self) -> bool {
        self.records >= PARCEL_RECORDS || self.pieces.len() >= PARCEL_RECORDS
    }

    /// Clears the contents, keeps the memory.
    pub fn clear(&mut self) {
        self.refs.clear();
        self.spans.clear();
        self.rooms_taken = 0;
        self.records = 0;
        self.blocks.clear();
        self.pieces.clear();
    }

    /// Blocks that no earlier parcel contains.
    pub fn blocks(&self) -> &[Arc<Block>] {
        &self.blocks
    }

    /// All batches in it; `blocks` are those of all parcels so far.
    pub fn batches<'a>(&'a self, blocks: &'a Dictionary) -> impl Iterator<Item = Batch<'a>> {
        let cuts = self.pieces.iter().filter_map(|piece| match piece {
            Piece::Batch(cut) => Some(cut),
            Piece::Event { .. } | Piece::Failed(_) => None,
        });
        cuts.map(|cut| self.batch(cut, blocks))
    }

    fn batch<'a>(&'a self, cut: &Cut, blocks: &'a Dictionary) -> Batch<'a> {
        let (refs, spans) = match cut.room.map(|room| &self.rooms[room]) {
            Some(room) => (&room.refs[room.first_ref..], &room.spans[..]),
            None => (&self.refs[..], &self.spans[..]),
        };
        Batch {
            space: cut.space,
            thread: cut.thread,
            first: cut.first,
            first_instruction: cut.first_instruction,
            refs: &refs[cut.refs.clone()],
            spans: &spans[cut.spans.clone()],
            wide: cut.wide,
            blocks,
        }
    }

    /// Item `at`, once; `blocks` are those of all parcels so far.
    pub fn item<'a>(&'a mut self, at: usize, blocks: &'a Dictionary) -> Result<Item<'a>, SourceError> {
        if let Piece::Batch(cut) = &self.pieces[at] {
            return Ok(Item::Batch(self.batch(cut, blocks)));
        }
        let taken = Piece::Event { at: RefIndex(0), event: Event::Marker { id: 0 } };
        match std::mem::replace(&mut self.pieces[at], taken) {
            Piece::Event { at, event } => Ok(Item::Event { at, event }),
            Piece::Failed(error) => Err(error),
            Piece::Batch(_) => unreachable!("batches were returned above"),
        }
    }
}
