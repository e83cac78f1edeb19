//! Several streams on one processor: each runs for a turn, then the next one does.
//!
//! A turn of a quantum ends at the first block's end at which the quantum is used up. A turn that ends at a system call
//! ends where the process enters the kernel: the event, which says that the call has returned, is the first item of
//! the stream's next turn. So a process that waits in `read` for what another writes has the other run in between,
//! if the streams stand in the order in which the processes hand on to each other.
//!
//! Where turns end at calls, a process that waits for a child (`wait4`) gets no turn before the child's stream has
//! ended, if it is among the streams: a parent that only waits is not in the others' way.
//!
//! Where turns end depends on the streams alone, not on how they are cut into batches. A stream that has ended gets
//! no more turns.

use crate::{Batch, BatchBuffer, Dictionary, Event, Item, Source, SourceError};
use pagewalk_units::{RefIndex, SpaceId, ThreadId};

/// Where turns end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turns {
    /// After so many instructions; `None`: however many there are.
    pub quantum: Option<u64>,
    /// At these system calls, by number.
    pub calls: Vec<u32>,
}

/// The streams and whose turn it is.
pub struct Interleave<S> {
    streams: Vec<Stream<S>>,
    turns: Turns,
    turn: usize,
    /// Instructions left of this turn.
    left: u64,
}

/// `wait4` on x86-64.
const WAIT4: u32 = 61;

/// One stream, and its batch that is partly yielded.
struct Stream<S> {
    source: S,
    ended: bool,
    /// The event that the last turn ended at.
    held: Option<(RefIndex, Event)>,
    /// A copy of the source's: what is yielded must not borrow from it.
    blocks: Dictionary,
    buffer: BatchBuffer,
    thread: ThreadId,
    first: RefIndex,
    first_instruction: u64,
    /// Spans yielded of the batch.
    done: usize,
}

impl<S: Source> Interleave<S> {
    /// Takes turns in the order given.
    pub fn new(sources: Vec<S>, turns: Turns) -> Interleave<S> {
        let streams = sources.into_iter().map(|source| Stream {
            source,
            ended: false,
            held: None,
            blocks: Dictionary::default(),
            buffer: BatchBuffer::default(),
            thread: ThreadId(0),
            first: RefIndex(0),
            first_instruction: 0,
            done: 0,
        });
        let left = turns.instructions();
        Interleave { streams: streams.collect(), turns, turn: 0, left }
    }

    /// The source with this index.
    pub fn source(&self, stream: usize) -> &S {
        &self.streams[stream].source
    }

    /// The next item and the index of its stream, or `None` when all have ended. A stream that fails ends.
    pub fn next_item(&mut self) -> Result<Option<(usize, Item<'_>)>, (usize, SourceError)> {
        loop {
            if self.left == 0 || self.streams.get(self.turn).is_none_or(|stream| stream.ended) {
                let Some(next) = self.next_turn() else { return Ok(None) };
                (self.turn, self.left) = (next, self.turns.instructions());
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
                Ok(Some((at, event))) => return Ok(Some((turn, Item::Event { at, event }))),
                Ok(None) => {}
                Err(error) => return Err((turn, error)),
            }
        }
    }

    /// Whose turn comes after this one: the next stream that has not ended and waits for no other.
    fn next_turn(&self) -> Option<usize> {
        let order = (1..=self.streams.len()).map(|step| (self.turn + step) % self.streams.len());
        let mut alive = order.filter(|&next| !self.streams[next].ended);
        let first = alive.clone().next()?;
        // Streams of different runs may seem to wait for each other: then the first goes on.
        Some(alive.find(|&next| !self.waits(next)).unwrap_or(first))
    }

    /// Whether a stream is in a `wait4` that will return a child whose stream has not ended.
    fn waits(&self, stream: usize) -> bool {
        let Some((_, Event::Syscall { number: WAIT4, result })) = self.streams[stream].held else {
            return false;
        };
        let is_awaited = |(index, other): (usize, &Stream<S>)| {
            let pid = other.source.header().pid;
            index != stream && !other.ended && pid != 0 && i64::from(pid) == result
        };
        self.streams.iter().enumerate().any(is_awaited)
    }
}

impl Turns {
    /// Turns of so many instructions.
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

    /// Reads on: an event, or into the buffer, or to the end.
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

    /// As much of the buffer as the turn has room for: at least one execution.
    fn next_part(&mut self, space: SpaceId, left: &mut u64) -> Batch<'_> {
        let from = self.done;
        let mut instructions = 0;
        while self.done < self.buffer.spans.len() && *left > 0 {
            let block = self.blocks.get(self.buffer.spans[self.done].block);
            instructions += block.instructions.len() as u64;
            // References without code take their time too.
            *left = left.saturating_sub((block.instructions.len() as u64).max(1));
            self.done += 1;
        }
        let start = self.buffer.spans[from].first;
        let end = self.buffer.spans.get(self.done).map_or(self.buffer.refs.len(), |span| span.first as usize);
        // Places in the part count from its own first reference.
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
mod tests {
    use super::*;
    use crate::{Block, BlockEnd, Event, Instruction, Origin, Ref, Site, Span, StreamHeader};
    use pagewalk_units::{Access, BlockId, Kind, Size, VirtAddr};

    /// Executions of one block of `instructions` instructions with one load, cut into batches of `cut`.
    struct Counting {
        header: StreamHeader,
        blocks: Dictionary,
        instructions: u64,
        left: u64,
        cut: u64,
        made: u64,
        buffer: BatchBuffer,
        exit: bool,
        /// Executions from one call to the next, none where 0, and the call's event.
        every: u64,
        call: Event,
        called: bool,
    }

    const READ: Event = Event::Syscall { number: 0, result: 1 };

    impl Counting {
        fn calls(mut self, every: u64, call: Event) -> Counting {
            (self.every, self.call) = (every, call);
            self
        }

        fn of(mut self, pid: u32) -> Counting {
            self.header.pid = pid;
            self
        }
    }

    fn counting(instructions: u64, executions: u64, cut: u64) -> Counting {
        let instruction = |i| Instruction { address: VirtAddr(0x1000 + i), length: 1 };
        let load = Access { kind: Kind::Load, size: Size::of_bytes(8).unwrap() };
        let mut blocks = Dictionary::default();
        blocks.intern(Block {
            instructions: (0..instructions).map(instruction).collect(),
            sites: [Site { instruction: 0, access: load }].into(),
            code: Box::default(),
            end: BlockEnd::Jump,
        });
        let nothing = String::new;
        let header = StreamHeader {
            pid: 0,
            parent: 0,
            origin: Origin::Import,
            program: nothing(),
            arguments: Vec::new(),
            engine: nothing(),
            thp: nothing(),
            cpu: nothing(),
            kernel: nothing(),
        };
        let buffer = BatchBuffer::default();
        let (left, made, exit, every, called) = (executions, 0, true, 0, false);
        Counting { header, blocks, instructions, left, cut, made, buffer, exit, every, call: READ, called }
    }

    impl Source for Counting {
        fn header(&self) -> &StreamHeader {
            &self.header
        }

        fn next_item(&mut self) -> Result<Option<Item<'_>>, SourceError> {
            let since_call = self.made.checked_rem(self.every).unwrap_or(0);
            if self.exit && self.every > 0 && self.made > 0 && since_call == 0 && !self.called {
                self.called = true;
                return Ok(Some(Item::Event { at: RefIndex(self.made), event: self.call.clone() }));
            }
            self.called = false;
            if self.left == 0 {
                let at = RefIndex(self.made);
                let exit = std::mem::take(&mut self.exit);
                return Ok(exit.then_some(Item::Event { at, event: Event::Exit { status: 0 } }));
            }
            self.buffer.clear();
            let first = RefIndex(self.made);
            let room = if self.every > 0 { self.every - since_call } else { u64::MAX };
            for i in 0..self.cut.min(self.left).min(room) {
                let load = Access { kind: Kind::Load, size: Size::of_bytes(8).unwrap() };
                self.buffer.refs.push(Ref::new(VirtAddr((self.made + i) * 8), load));
                self.buffer.spans.push(Span { block: BlockId(0), first: i as u32 });
            }
            let first_instruction = self.made * self.instructions;
            self.made += self.buffer.refs.len() as u64;
            self.left -= self.buffer.refs.len() as u64;
            Ok(Some(Item::Batch(Batch {
                space: SpaceId(0),
                thread: ThreadId(0),
                first,
                first_instruction,
                refs: &self.buffer.refs,
                spans: &self.buffer.spans,
                wide: false,
                blocks: &self.blocks,
            })))
        }
    }

    /// Stream and address of each reference, in order; checks places on the way.
    fn order(sources: Vec<Counting>, turns: Turns) -> Vec<(usize, u64)> {
        let per_block: Vec<u64> = sources.iter().map(|source| source.instructions).collect();
        let mut all = Interleave::new(sources, turns);
        let (mut order, mut exits) = (Vec::new(), 0);
        while let Some((stream, item)) = all.next_item().map_err(|(_, error)| error).unwrap() {
            match item {
                Item::Event { event, .. } => exits += usize::from(matches!(event, Event::Exit { .. })),
                Item::Batch(batch) => {
                    assert_eq!(batch.space.0 as usize, stream);
                    assert_eq!(batch.refs[0].address().0, batch.first.0 * 8);
                    assert_eq!(batch.first_instruction, batch.first.0 * per_block[stream]);
                    assert!(batch.spans.iter().enumerate().all(|(i, span)| span.first as usize == i));
                    order.extend(batch.refs.iter().map(|record| (stream, record.address().0 / 8)));
                }
            }
        }
        assert_eq!(exits, per_block.len());
        order
    }

    #[test]
    fn turns_do_not_depend_on_batches() {
        for quantum in [1, 3, 7, 10, 1000] {
            let order_of = |cut| {
                order(
                    vec![counting(3, 11, cut), counting(5, 4, cut), counting(1, 9, cut)],
                    Turns::of(quantum),
                )
            };
            let expected = order_of(1);
            assert_eq!(expected.len(), 24);
            [2, 5, 100].iter().for_each(|&cut| assert_eq!(order_of(cut), expected, "quantum {quantum}"));
        }
    }

    #[test]
    fn a_turn_lasts_for_the_quantum() {
        let order = order(vec![counting(3, 4, 100), counting(5, 3, 2)], Turns::of(7));
        // Three blocks of three instructions, then two of five; then what is left.
        let expected = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (0, 3), (1, 2)];
        assert_eq!(order, expected);
    }

    fn at_reads(quantum: Option<u64>) -> Turns {
        Turns { quantum, calls: vec![0] }
    }

    #[test]
    fn a_turn_ends_where_a_call_begins() {
        // The first calls before every second execution but the first, the second before every one.
        let streams = |cut| vec![counting(3, 5, cut).calls(2, READ), counting(5, 3, cut).calls(1, READ)];
        let expected = [(0, 0), (0, 1), (1, 0), (0, 2), (0, 3), (1, 1), (0, 4), (1, 2)];
        [1, 2, 100].iter().for_each(|&cut| assert_eq!(order(streams(cut), at_reads(None)), expected));
        // A quantum ends turns besides. One that ends just before a call leaves the call a turn of its own.
        let expected = [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (0, 3), (1, 2), (0, 4)];
        assert_eq!(order(streams(2), at_reads(Some(3))), expected);
        let one_by_one = [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4), (1, 0), (1, 1), (1, 2)];
        assert_eq!(order(streams(2), Turns { quantum: None, calls: vec![7] }), one_by_one);
    }

    #[test]
    fn the_event_of_the_call_begins_the_next_turn() {
        let streams = vec![counting(1, 2, 9).calls(1, READ), counting(1, 2, 9).calls(1, READ)];
        let mut all = Interleave::new(streams, at_reads(None));
        let mut told = Vec::new();
        while let Some((stream, item)) = all.next_item().map_err(|(_, error)| error).unwrap() {
            told.push((stream, matches!(item, Item::Event { .. })));
        }
        let (run, event) = (false, true);
        let first = [(0, run), (1, run), (0, event), (0, run), (1, event), (1, run)];
        // The last calls, and the exits.
        assert_eq!(told[..6], first);
        assert_eq!(told[6..], [(0, event), (0, event), (1, event), (1, event)]);
    }

    #[test]
    fn parents_wait_for_their_children() {
        let wait = |child| Event::Syscall { number: WAIT4, result: child };
        let parent = || counting(1, 2, 9).of(10).calls(1, wait(11));
        let child = || counting(1, 3, 9).of(11).calls(1, READ);
        let expected = [(0, 0), (1, 0), (1, 1), (1, 2), (0, 1)];
        assert_eq!(order(vec![parent(), child()], at_reads(None)), expected);
        // One that is not among the streams has ended long ago; and nobody waits for himself.
        for other in [12, 10] {
            let parent = counting(1, 2, 9).of(10).calls(1, wait(other));
            let expected = [(0, 0), (1, 0), (0, 1), (1, 1), (1, 2)];
            assert_eq!(order(vec![parent, child()], at_reads(None)), expected);
        }
    }
}
