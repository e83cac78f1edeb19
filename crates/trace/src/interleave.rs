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

use crate::{Batch, BatchParts, Event, Item, Source, SourceError};
use pagewalk_units::{RefIndex, SpaceId};
use rustc_hash::FxHashSet;

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
    /// Whether an exec came last.
    exec: bool,
    /// The event at which the last turn ended.
    held: Option<(RefIndex, Event)>,
    /// The batch of which turns are parts.
    batch: BatchParts,
}

impl<S: Source> Interleave<S> {
    /// Streams take turns in this order.
    pub fn new(sources: Vec<S>, turns: Turns) -> Interleave<S> {
        let streams = sources.into_iter().map(|source| Stream {
            source,
            begun: false,
            ended: false,
            exec: false,
            held: None,
            batch: BatchParts::default(),
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
            if !self.streams[turn].batch.is_used_up() {
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
                *number == Event::WAIT4 || self.calls.contains(number)
            }
            _ => false,
        }
    }
}

impl<S: Source> Stream<S> {
    /// Reads the next event or batch, or finds the end: of an image that an exec replaced, that is an event.
    fn pull(&mut self) -> Result<Option<(RefIndex, crate::Event)>, SourceError> {
        match self.source.next_item() {
            Ok(Some(Item::Event { at, event })) => {
                self.exec = matches!(event, Event::Exec { .. });
                return Ok(Some((at, event)));
            }
            Ok(Some(Item::Batch(batch))) => {
                self.exec &= batch.spans.is_empty();
                self.batch.copy(&batch);
            }
            Ok(None) => {
                self.ended = true;
                return Ok(self.exec.then_some((RefIndex(0), Event::Replaced)));
            }
            Err(error) => {
                self.ended = true;
                return Err(error);
            }
        }
        Ok(None)
    }

    /// The part of the batch that fits the turn: at least one execution.
    fn next_part(&mut self, space: SpaceId, left: &mut u64) -> Batch<'_> {
        let rest = self.batch.rest();
        let mut executions = 0;
        while executions < rest.spans.len() && *left > 0 {
            let block = rest.blocks.get(rest.spans[executions].block);
            // References without code take time too.
            *left = left.saturating_sub((block.instructions.len() as u64).max(1));
            executions += 1;
        }
        Batch { space, ..self.batch.part(executions) }
    }
}

#[cfg(test)]
mod tests;
