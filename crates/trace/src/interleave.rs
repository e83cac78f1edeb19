//! Interleaves several streams on one processor: each runs for a turn, then the next one does.
//!
//! A turn with a quantum ends at the first block end at which the quantum is used up. A turn that ends at a system call
//! ends where the process enters the kernel: the event for the call's return is the first item of the stream's next
//! turn. So while a process waits in `read` for another's output, the other runs, if the streams are ordered as the
//! processes pass data on.
//!
//! If turns end at calls, the streams of a program and its children run as the processes did: see `waits.rs`.
//!
//! Where turns end depends only on the streams, not on their division into batches. An ended stream gets no more turns.

mod waits;

use crate::{Batch, BatchBuffer, Dictionary, Event, Item, Source, SourceError};
use pagewalk_units::{RefIndex, SpaceId, ThreadId};
use rustc_hash::FxHashSet;
use waits::WAIT4;

/// Where turns end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turns {
    /// After this many instructions; `None`: no limit.
    pub quantum: Option<u64>,
    /// At these system calls, by number.
    pub calls: Vec<u32>,
}

/// The streams, and whose turn it is.
pub struct Interleave<S> {
    streams: Vec<Stream<S>>,
    turns: Turns,
    turn: usize,
    /// Instructions left in this turn.
    left: u64,
    /// Process ids of forked children.
    forked: FxHashSet<u32>,
}

/// One stream, with a partly yielded batch.
struct Stream<S> {
    source: S,
    /// Whether it has had a turn.
    begun: bool,
    ended: bool,
    /// The event at which the last turn ended.
    held: Option<(RefIndex, Event)>,
    /// A copy of the source's: yielded items must not borrow from it.
    blocks: Dictionary,
    buffer: BatchBuffer,
    thread: ThreadId,
    first: RefIndex,
    first_instruction: u64,
    /// Yielded spans of the batch.
    done: usize,
}

impl<S: Source> Interleave<S> {
    /// Streams take turns in this order.
    pub fn new(sources: Vec<S>, turns: Turns) -> Interleave<S> {
        let streams = sources.into_iter().map(|source| Stream {
            source,
            begun: false,
            ended: false,
            held: None,
            blocks: Dictionary::default(),
            buffer: BatchBuffer::default(),
            thread: ThreadId(0),
            first: RefIndex(0),
            first_instruction: 0,
            done: 0,
        });
        let streams: Vec<Stream<S>> = streams.collect();
        // The first turn follows one of the last stream, with nothing left.
        let turn = streams.len().saturating_sub(1);
        Interleave { streams, turns, turn, left: 0, forked: FxHashSet::default() }
    }

    /// The source with this index.
    pub fn source(&self, stream: usize) -> &S {
        &self.streams[stream].source
    }

    /// The next item with the index of its stream, or `None` when all have ended. A failing stream ends.
    pub fn next_item(&mut self) -> Result<Option<(usize, Item<'_>)>, (usize, SourceError)> {
        loop {
            if self.left == 0 || self.streams.get(self.turn).is_none_or(|stream| stream.ended) {
                let Some(next) = self.next_turn() else { return Ok(None) };
                (self.turn, self.left) = (next, self.turns.instructions());
                self.streams[next].begun = true;
                if let Some((at, event)) = self.streams[next].held.take() {
                    return Ok(Some((next, Item::Event { at, event })));
                }
            }
            let turn = self.turn;
            if !self.streams[turn].is_used_up() {
                let batch = self.streams[turn].next_part(SpaceId(turn as u32), &mut self.left);
                return Ok(Some((turn, Item::Batch(batch))));
            }
            match self.streams[turn].pull() {
                Ok(Some((at, event))) if self.turns.end_at(&event) => {
                    self.streams[turn].held = Some((at, event));
                    self.left = 0;
                }
                Ok(Some((at, event))) => {
                    if let Event::Fork { child } = event {
                        self.forked.insert(child);
                    }
                    return Ok(Some((turn, Item::Event { at, event })));
                }
                Ok(None) => {}
                Err(error) => return Err((turn, error)),
            }
        }
    }
}

impl Turns {
    /// Turns of this many instructions.
    pub fn of(quantum: u64) -> Turns {
        Turns { quantum: Some(quantum), calls: Vec::new() }
    }

    fn instructions(&self) -> u64 {
        self.quantum.map_or(u64::MAX, |quantum| quantum.max(1))
    }

    /// Whether a turn ends before this event.
    fn end_at(&self, event: &Event) -> bool {
        match event {
            Event::Syscall { number, .. } if !self.calls.is_empty() => {
                *number == WAIT4 || self.calls.contains(number)
            }
            _ => false,
        }
    }
}

impl<S: Source> Stream<S> {
    fn is_used_up(&self) -> bool {
        self.done == self.buffer.spans.len()
    }

    /// Reads the next event, or fills the buffer, or finds the end.
    fn pull(&mut self) -> Result<Option<(RefIndex, crate::Event)>, SourceError> {
        match self.source.next_item() {
            Ok(Some(Item::Event { at, event })) => return Ok(Some((at, event))),
            Ok(Some(Item::Batch(batch))) => {
                for block in batch.blocks.since(self.blocks.len()) {
                    self.blocks.intern(block.clone());
                }
                self.buffer.clear();
                self.buffer.refs.extend_from_slice(batch.refs);
                self.buffer.spans.extend_from_slice(batch.spans);
                self.buffer.wide = batch.wide;
                (self.thread, self.first) = (batch.thread, batch.first);
                (self.first_instruction, self.done) = (batch.first_instruction, 0);
            }
            Ok(None) => self.ended = true,
            Err(error) => {
                self.ended = true;
                return Err(error);
            }
        }
        Ok(None)
    }

    /// The part of the buffer that fits the turn: at least one execution.
    fn next_part(&mut self, space: SpaceId, left: &mut u64) -> Batch<'_> {
        let from = self.done;
        let mut instructions = 0;
        while self.done < self.buffer.spans.len() && *left > 0 {
            let block = self.blocks.get(self.buffer.spans[self.done].block);
            instructions += block.instructions.len() as u64;
            // References without code take time too.
            *left = left.saturating_sub((block.instructions.len() as u64).max(1));
            self.done += 1;
        }
        let start = self.buffer.spans[from].first;
        let end = self.buffer.spans.get(self.done).map_or(self.buffer.refs.len(), |span| span.first as usize);
        // Spans in the part count from its own first reference.
        self.buffer.spans[from..self.done].iter_mut().for_each(|span| span.first -= start);
        let first_instruction = self.first_instruction;
        self.first_instruction += instructions;
        Batch {
            space,
            thread: self.thread,
            first: RefIndex(self.first.0 + u64::from(start)),
            first_instruction,
            refs: &self.buffer.refs[start as usize..end],
            spans: &self.buffer.spans[from..self.done],
            wide: self.buffer.wide,
            blocks: &self.blocks,
        }
    }
}

#[cfg(test)]
mod tests;
