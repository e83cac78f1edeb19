//! Reading ahead: a source decoded on a thread of its own, while its items are consumed on another.
//!
//! Decoding and simulating cost about the same, so this lets two processors share the work. Items come out
//! as they went in: same batches, same order, same places. Memory is bounded: the reader waits when it is
//! [`PARCELS`] parcels ahead. Batches worth it move with their room, if the source gives it away; others are copied.

use pagewalk_trace::{
    Batch, BatchRoom, Block, Dictionary, Event, Item, Ref, Source, SourceError, Span, StreamHeader,
};
use pagewalk_units::{RefIndex, SpaceId, ThreadId};
use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Scope;

/// Parcels under way at one time.
const PARCELS: usize = 4;
/// A parcel is sent when it holds this many references and block executions.
const PARCEL_RECORDS: usize = 1 << 16;
/// A batch of fewer references and block executions is not worth a room.
const ROOM_RECORDS: usize = Batch::TARGET_LEN / 2;

/// Where a batch lies in its parcel, and what else it says.
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

/// Several items together: handing over each one alone would cost more than decoding it.
#[derive(Default)]
struct Parcel {
    /// What was copied.
    refs: Vec<Ref>,
    spans: Vec<Span>,
    /// Rooms of batches, and behind `rooms_taken` of them those that are free.
    rooms: Vec<BatchRoom>,
    rooms_taken: usize,
    /// References and block executions.
    records: usize,
    /// Blocks that no earlier parcel names.
    blocks: Vec<Block>,
    pieces: Vec<Piece>,
}

/// The consuming end.
pub struct Ahead {
    header: StreamHeader,
    full: Receiver<Parcel>,
    empty: SyncSender<Parcel>,
    parcel: Parcel,
    next: usize,
    blocks: Dictionary,
}

/// Decodes `source` on a thread of `scope` from now on.
pub fn read_ahead<'scope, S: Source + Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    source: S,
) -> std::io::Result<Ahead> {
    let (send_full, full) = sync_channel(PARCELS);
    let (empty, take_empty) = sync_channel(PARCELS);
    let header = source.header().clone();
    std::thread::Builder::new()
        .name("decode".to_owned())
        .spawn_scoped(scope, move || decode(source, &send_full, &take_empty))?;
    let parcel = Parcel::default();
    Ok(Ahead { header, full, empty, parcel, next: 0, blocks: Dictionary::default() })
}

fn decode<S: Source>(mut source: S, full: &SyncSender<Parcel>, empty: &Receiver<Parcel>) {
    let mut parcel = Parcel::default();
    let mut known = 0;
    let gives_rooms = source.gives_rooms();
    loop {
        let ended = match source.next_item() {
            Ok(Some(Item::Batch(batch))) => {
                if parcel.add(&batch, &mut known, gives_rooms) {
                    source.give_room(parcel.take_room());
                }
                false
            }
            Ok(Some(Item::Event { at, event })) => {
                parcel.pieces.push(Piece::Event { at, event });
                false
            }
            Ok(None) => true,
            Err(error) => {
                parcel.pieces.push(Piece::Failed(error));
                true
            }
        };
        if ended || parcel.is_full() {
            let next = empty.try_recv().unwrap_or_default();
            // If nobody takes it, nobody is interested in the rest either.
            if full.send(std::mem::replace(&mut parcel, next)).is_err() || ended {
                return;
            }
        }
    }
}

impl Parcel {
    /// Adds a batch; says whether the next room to be taken is to be the batch's.
    fn add(&mut self, batch: &Batch<'_>, known: &mut usize, gives_rooms: bool) -> bool {
        self.blocks.extend(batch.blocks.since(*known).cloned());
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

    /// A room, to be exchanged for that of a batch.
    fn take_room(&mut self) -> &mut BatchRoom {
        let taken = self.rooms_taken;
        self.rooms_taken += 1;
        if taken == self.rooms.len() {
            self.rooms.push(BatchRoom::default());
        }
        &mut self.rooms[taken]
    }

    fn is_full(&self) -> bool {
        self.records >= PARCEL_RECORDS || self.pieces.len() >= PARCEL_RECORDS
    }

    /// Forgets the contents, keeps the memory.
    fn clear(&mut self) {
        self.refs.clear();
        self.spans.clear();
        self.rooms_taken = 0;
        self.records = 0;
        self.blocks.clear();
        self.pieces.clear();
    }
}

impl Source for Ahead {
    fn header(&self) -> &StreamHeader {
        &self.header
    }

    fn next_item(&mut self) -> Result<Option<Item<'_>>, SourceError> {
        while self.next == self.parcel.pieces.len() {
            let Ok(parcel) = self.full.recv() else { return Ok(None) };
            let mut used = std::mem::replace(&mut self.parcel, parcel);
            self.next = 0;
            used.clear();
            // A reader that has ended wants none back.
            let _ = self.empty.try_send(used);
            for block in std::mem::take(&mut self.parcel.blocks) {
                self.blocks.intern(block);
            }
        }
        self.next += 1;
        let at = self.next - 1;
        if let Piece::Batch(cut) = &self.parcel.pieces[at] {
            let (refs, spans) = match cut.room {
                Some(room) => (&self.parcel.rooms[room].refs, &self.parcel.rooms[room].spans),
                None => (&self.parcel.refs, &self.parcel.spans),
            };
            return Ok(Some(Item::Batch(Batch {
                space: cut.space,
                thread: cut.thread,
                first: cut.first,
                first_instruction: cut.first_instruction,
                refs: &refs[cut.refs.clone()],
                spans: &spans[cut.spans.clone()],
                wide: cut.wide,
                blocks: &self.blocks,
            })));
        }
        let taken = Piece::Event { at: RefIndex(0), event: Event::Marker { id: 0 } };
        match std::mem::replace(&mut self.parcel.pieces[at], taken) {
            Piece::Event { at, event } => Ok(Some(Item::Event { at, event })),
            Piece::Failed(error) => Err(error),
            Piece::Batch(_) => unreachable!("batches were returned above"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewalk_trace::{BlockEnd, Origin};

    /// Batches of so many references each, an event behind every third; all values differ.
    struct Steps {
        header: StreamHeader,
        gives: bool,
        sizes: Vec<usize>,
        next: usize,
        told: u64,
        event: bool,
        room: BatchRoom,
        blocks: Dictionary,
    }

    impl Steps {
        fn new(sizes: &[usize], gives: bool) -> Steps {
            let header = StreamHeader::unknown(Origin::Import);
            Steps {
                header,
                gives,
                sizes: sizes.to_vec(),
                next: 0,
                told: 0,
                event: false,
                room: BatchRoom::default(),
                blocks: Dictionary::default(),
            }
        }
    }

    impl Source for Steps {
        fn header(&self) -> &StreamHeader {
            &self.header
        }

        fn next_item(&mut self) -> Result<Option<Item<'_>>, SourceError> {
            if std::mem::take(&mut self.event) {
                let event = Event::Marker { id: self.next as u64 };
                return Ok(Some(Item::Event { at: RefIndex(self.told), event }));
            }
            let Some(&size) = self.sizes.get(self.next) else {
                return Err(SourceError::Truncated("the end".to_owned()));
            };
            self.next += 1;
            self.event = self.next.is_multiple_of(3);
            let code: Box<[u8]> = self.next.to_le_bytes().into();
            let block = Block { instructions: [].into(), sites: [].into(), code, end: BlockEnd::Jump };
            let block = self.blocks.intern(block);
            let first = self.told;
            self.told += size as u64;
            // What a room held before lies behind what is new.
            let refs = (first..self.told).map(|address| Ref::from_parts(address, 1));
            self.room.refs.splice(..size.min(self.room.refs.len()), refs);
            self.room.spans.splice(..self.room.spans.len().min(1), [Span { block, first: 0 }]);
            Ok(Some(Item::Batch(Batch {
                space: SpaceId(0),
                thread: ThreadId(1),
                first: RefIndex(first),
                first_instruction: first,
                refs: &self.room.refs[..size],
                spans: &self.room.spans[..1],
                wide: size % 2 == 0,
                blocks: &self.blocks,
            })))
        }

        fn gives_rooms(&self) -> bool {
            self.gives
        }

        fn give_room(&mut self, for_another: &mut BatchRoom) {
            std::mem::swap(&mut self.room, for_another);
        }
    }

    /// Everything that a source yields, as text.
    fn told(source: &mut impl Source) -> Vec<String> {
        let mut all = Vec::new();
        loop {
            match source.next_item() {
                Ok(Some(Item::Batch(batch))) => {
                    let Batch { first, first_instruction, refs, spans, wide, blocks, .. } = batch;
                    let code: &[u8] = &blocks.get(spans[0].block).code;
                    all.push(format!("{first:?} {first_instruction} {refs:?} {spans:?} {wide} {code:?}"));
                }
                Ok(Some(Item::Event { at, event })) => all.push(format!("{at:?} {event:?}")),
                Ok(None) => return all,
                Err(error) => {
                    all.push(error.to_string());
                    return all;
                }
            }
        }
    }

    #[test]
    fn items_come_out_as_they_went_in() {
        // Rooms return and are used again: more than all parcels hold.
        let sizes: Vec<usize> = (0..300).map(|n| [0, 1, 2047, 2048, 4096, 5000, 77][n * n % 7]).collect();
        let straight = told(&mut Steps::new(&sizes, false));
        assert_eq!(straight.len(), 300 + 100 + 1);
        for gives in [false, true] {
            let ahead = std::thread::scope(|scope| {
                told(&mut read_ahead(scope, Steps::new(&sizes, gives)).expect("a thread"))
            });
            assert!(ahead == straight, "gives rooms: {gives}");
        }
    }
}
