//! Tests of turns.

use super::*;
use crate::{
    BatchBuffer, Block, BlockEnd, Dictionary, Event, Instruction, Origin, Ref, Site, Span, StreamHeader,
};
use pagewalk_units::{Access, BlockId, Kind, Size, ThreadId, VirtAddr};

/// Executions of one block of `instructions` instructions with one load, in batches of `cut`.
struct Counting {
    header: StreamHeader,
    blocks: Dictionary,
    instructions: u64,
    left: u64,
    cut: u64,
    made: u64,
    buffer: BatchBuffer,
    exit: bool,
    /// The event at its end.
    last: Event,
    /// Executions between calls (0: no calls), and the call's event.
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
    let header = StreamHeader::unknown(Origin::Import);
    let buffer = BatchBuffer::default();
    let (left, made, exit, every, called) = (executions, 0, true, 0, false);
    let last = Event::Exit { status: 0 };
    Counting { header, blocks, instructions, left, cut, made, buffer, exit, last, every, call: READ, called }
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
            return Ok(exit.then_some(Item::Event { at, event: self.last.clone() }));
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
            order(vec![counting(3, 11, cut), counting(5, 4, cut), counting(1, 9, cut)], Turns::of(quantum))
        };
        let expected = order_of(1);
        assert_eq!(expected.len(), 24);
        [2, 5, 100].iter().for_each(|&cut| assert_eq!(order_of(cut), expected, "quantum {quantum}"));
    }
}

#[test]
fn a_turn_lasts_for_the_quantum() {
    let order = order(vec![counting(3, 4, 100), counting(5, 3, 2)], Turns::of(7));
    // Three blocks of three instructions, then two of five; then the rest.
    let expected = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (0, 3), (1, 2)];
    assert_eq!(order, expected);
}

fn at_reads(quantum: Option<u64>) -> Turns {
    Turns { quantum, calls: vec![0] }
}

#[test]
fn a_turn_ends_where_a_call_begins() {
    // The first calls before every second execution except the first, the second before every one.
    let streams = |cut| vec![counting(3, 5, cut).calls(2, READ), counting(5, 3, cut).calls(1, READ)];
    let expected = [(0, 0), (0, 1), (1, 0), (0, 2), (0, 3), (1, 1), (0, 4), (1, 2)];
    [1, 2, 100].iter().for_each(|&cut| assert_eq!(order(streams(cut), at_reads(None)), expected));
    // A quantum also ends turns. If it ends just before a call, the call gets a turn of its own.
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
    let wait = |child| Event::Syscall { number: Event::WAIT4, result: child };
    let parent = || counting(1, 2, 9).of(10).calls(1, wait(11));
    let child = || counting(1, 3, 9).of(11).calls(1, READ);
    let expected = [(0, 0), (1, 0), (1, 1), (1, 2), (0, 1)];
    assert_eq!(order(vec![parent(), child()], at_reads(None)), expected);
    // One that is not among the streams has ended long ago; and nobody waits for itself.
    for other in [12, 10] {
        let parent = counting(1, 2, 9).of(10).calls(1, wait(other));
        let expected = [(0, 0), (1, 0), (0, 1), (1, 1), (1, 2)];
        assert_eq!(order(vec![parent, child()], at_reads(None)), expected);
    }
}

#[test]
fn children_and_new_images_begin_when_they_did() {
    let streams = || {
        let mut child = counting(1, 2, 9).of(11);
        (child.header.parent, child.header.origin) = (10, Origin::Fork);
        let mut image = counting(1, 1, 9).of(11);
        (image.header.parent, image.header.origin) = (10, Origin::Exec);
        let parent = counting(1, 2, 9).of(10).calls(1, Event::Fork { child: 11 });
        vec![child, image, parent]
    };
    let whole = [(2, 0), (2, 1), (0, 0), (0, 1), (1, 0)];
    assert_eq!(order(streams(), at_reads(None)), whole);
    // The fork comes in the parent's second turn. The new image still waits for the old one.
    assert_eq!(order(streams(), at_reads(Some(1))), whole);
    // Turns that end at no call ignore this.
    assert_eq!(order(streams(), Turns::of(9)), [(0, 0), (0, 1), (1, 0), (2, 0), (2, 1)]);
    // So does one whose parent is absent.
    let orphans = streams().into_iter().take(2).collect();
    assert_eq!(order(orphans, at_reads(None)), [(0, 0), (0, 1), (1, 0)]);
}

/// An exec that failed is followed by more of its image.
#[test]
fn an_image_that_exec_replaced_says_so_at_its_end() {
    let exec = || Event::Exec { path: "/bin/true".to_owned() };
    let replaced = |source: Counting| {
        let mut all = Interleave::new(vec![source], Turns::of(9));
        let mut events = Vec::new();
        while let Some((_, item)) = all.next_item().map_err(|(_, error)| error).unwrap() {
            if let Item::Event { event, .. } = item {
                events.push(event);
            }
        }
        events.iter().filter(|event| **event == Event::Replaced).count()
    };
    assert_eq!(replaced(Counting { last: exec(), ..counting(1, 2, 9) }), 1);
    assert_eq!(replaced(counting(1, 2, 9).calls(1, exec())), 0);
}
