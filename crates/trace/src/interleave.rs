//! Several streams on one processor: each runs for a quantum of instructions, then the next one does.
//!
//! A turn ends at the first block's end at which the quantum is used up. So where it ends depends on the streams
//! alone, not on how they are cut into batches. A stream that has ended gets no more turns.

use crate::{Batch, BatchBuffer, Dictionary, Item, Source, SourceError};
use pagewalk_units::{RefIndex, SpaceId, ThreadId};

/// The streams and whose turn it is.
pub struct Interleave<S> {
    streams: Vec<Stream<S>>,
    quantum: u64,
    turn: usize,
    /// Instructions left of this turn.
    left: u64,
}

/// One stream, and its batch that is partly yielded.
struct Stream<S> {
    source: S,
    ended: bool,
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
    /// Takes turns of `quantum` instructions, in the order given.
    pub fn new(sources: Vec<S>, quantum: u64) -> Interleave<S> {
        let streams = sources.into_iter().map(|source| Stream {
            source,
            ended: false,
            blocks: Dictionary::default(),
            buffer: BatchBuffer::default(),
            thread: ThreadId(0),
            first: RefIndex(0),
            first_instruction: 0,
            done: 0,
        });
        Interleave { streams: streams.collect(), quantum: quantum.max(1), turn: 0, left: quantum.max(1) }
    }

    /// The source with this index.
    pub fn source(&self, stream: usize) -> &S {
        &self.streams[stream].source
    }

    /// The next item and the index of its stream, or `None` when all have ended. A stream that fails ends.
    pub fn next_item(&mut self) -> Result<Option<(usize, Item<'_>)>, (usize, SourceError)> {
        loop {
            if self.left == 0 || self.streams.get(self.turn).is_none_or(|stream| stream.ended) {
                let order = (1..=self.streams.len()).map(|step| (self.turn + step) % self.streams.len());
                let Some(next) = order.into_iter().find(|&next| !self.streams[next].ended) else {
                    return Ok(None);
                };
                (self.turn, self.left) = (next, self.quantum);
            }
            let turn = self.turn;
            if !self.streams[turn].is_used_up() {
                let batch = self.streams[turn].next_part(SpaceId(turn as u32), &mut self.left);
                return Ok(Some((turn, Item::Batch(batch))));
            }
            match self.streams[turn].pull() {
                Ok(Some((at, event))) => return Ok(Some((turn, Item::Event { at, event }))),
                Ok(None) => {}
                Err(error) => return Err((turn, error)),
            }
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
        Counting { header, blocks, instructions, left: executions, cut, made: 0, buffer, exit: true }
    }

    impl Source for Counting {
        fn header(&self) -> &StreamHeader {
            &self.header
        }

        fn next_item(&mut self) -> Result<Option<Item<'_>>, SourceError> {
            if self.left == 0 {
                let at = RefIndex(self.made);
                let exit = std::mem::take(&mut self.exit);
                return Ok(exit.then_some(Item::Event { at, event: Event::Exit { status: 0 } }));
            }
            self.buffer.clear();
            let first = RefIndex(self.made);
            for i in 0..self.cut.min(self.left) {
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
    fn order(sources: Vec<Counting>, quantum: u64) -> Vec<(usize, u64)> {
        let per_block: Vec<u64> = sources.iter().map(|source| source.instructions).collect();
        let mut all = Interleave::new(sources, quantum);
        let (mut order, mut exits) = (Vec::new(), 0);
        while let Some((stream, item)) = all.next_item().map_err(|(_, error)| error).unwrap() {
            match item {
                Item::Event { .. } => exits += 1,
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
            let order_of =
                |cut| order(vec![counting(3, 11, cut), counting(5, 4, cut), counting(1, 9, cut)], quantum);
            let expected = order_of(1);
            assert_eq!(expected.len(), 24);
            [2, 5, 100].iter().for_each(|&cut| assert_eq!(order_of(cut), expected, "quantum {quantum}"));
        }
    }

    #[test]
    fn a_turn_lasts_for_the_quantum() {
        let order = order(vec![counting(3, 4, 100), counting(5, 3, 2)], 7);
        // Three blocks of three instructions, then two of five; then what is left.
        let expected = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (0, 3), (1, 2)];
        assert_eq!(order, expected);
    }
}
