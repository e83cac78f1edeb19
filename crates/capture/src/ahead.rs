//! Reading ahead: a source decoded on a thread of its own, while its items are consumed on another.
//!
//! Decoding and simulating cost about the same, so this lets two processors share the work. Items come out
//! as they went in: same batches, same order, same places. Memory is bounded: the reader waits when it is
//! [`PARCELS`] parcels ahead.

use pagewalk_trace::{Batch, Block, Dictionary, Event, Item, Ref, Source, SourceError, Span, StreamHeader};
use pagewalk_units::{RefIndex, SpaceId, ThreadId};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Scope;

/// Parcels under way at one time.
const PARCELS: usize = 4;
/// A parcel is sent when it holds this many references and block executions.
const PARCEL_RECORDS: usize = 1 << 16;

/// Where a batch lies in its parcel, and what else it says.
struct Cut {
    space: SpaceId,
    thread: ThreadId,
    first: RefIndex,
    first_instruction: u64,
    wide: bool,
    refs: std::ops::Range<usize>,
    spans: std::ops::Range<usize>,
}

enum Piece {
    Batch(Cut),
    Event { at: RefIndex, event: Event },
    Failed(SourceError),
}

/// Several items together: handing over each one alone would cost more than decoding it.
#[derive(Default)]
struct Parcel {
    refs: Vec<Ref>,
    spans: Vec<Span>,
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
    loop {
        let ended = match source.next_item() {
            Ok(Some(Item::Batch(batch))) => {
                parcel.add(&batch, &mut known);
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
    fn add(&mut self, batch: &Batch<'_>, known: &mut usize) {
        self.blocks.extend(batch.blocks.since(*known).cloned());
        *known = batch.blocks.len();
        let (refs, spans) = (self.refs.len(), self.spans.len());
        self.refs.extend_from_slice(batch.refs);
        self.spans.extend_from_slice(batch.spans);
        self.pieces.push(Piece::Batch(Cut {
            space: batch.space,
            thread: batch.thread,
            first: batch.first,
            first_instruction: batch.first_instruction,
            wide: batch.wide,
            refs: refs..self.refs.len(),
            spans: spans..self.spans.len(),
        }));
    }

    fn is_full(&self) -> bool {
        self.refs.len() + self.spans.len() >= PARCEL_RECORDS || self.pieces.len() >= PARCEL_RECORDS
    }

    fn clear(&mut self) {
        self.refs.clear();
        self.spans.clear();
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
            return Ok(Some(Item::Batch(Batch {
                space: cut.space,
                thread: cut.thread,
                first: cut.first,
                first_instruction: cut.first_instruction,
                refs: &self.parcel.refs[cut.refs.clone()],
                spans: &self.parcel.spans[cut.spans.clone()],
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
