//! Streams for tests: made from a few numbers, kept item by item, and compared execution by execution.

use pagewalk_trace::pwt::{Reader, Writer};
use pagewalk_trace::{
    Analysis, Batch, BatchRoom, Block, BlockEnd, Dictionary, Event, Instruction, Item, Mapping, Origin,
    Protection, Ref, Site, Source, SourceError, Span, StreamHeader,
};
use pagewalk_units::{Access, BlockId, Kind, RefIndex, Size, SpaceId, ThreadId, VirtAddr};
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

/// One execution of a block with all that a batch says of it, or an event.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    Execution {
        block: BlockId,
        refs: Vec<Ref>,
        thread: ThreadId,
        space: SpaceId,
        first: u64,
        first_instruction: u64,
    },
    Event {
        at: u64,
        event: Event,
    },
}

/// A stream of any length.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    pub blocks: Dictionary,
    pub steps: Vec<Step>,
    pub thread: ThreadId,
    pub space: SpaceId,
    pub refs: u64,
    pub instructions: u64,
}

pub fn header() -> StreamHeader {
    StreamHeader {
        pid: 7,
        parent: 1,
        origin: Origin::Start,
        program: "/bin/true".into(),
        arguments: vec!["true".into(), "ä".into()],
        engine: "test 1".into(),
        thp: "madvise".into(),
        cpu: "none".into(),
        kernel: "6.1".into(),
        grain: pagewalk_trace::Grain::Byte,
        inferred_gap: None,
    }
}

/// A block of `instructions` four-byte instructions at `start` with a site for each byte of `metas`.
pub fn block(start: u64, instructions: u16, metas: &[u8]) -> Block {
    let instruction = |number| Instruction { address: VirtAddr(start + 4 * u64::from(number)), length: 4 };
    let site = |(number, &meta): (usize, &u8)| {
        let access = Access { kind: Kind::from_code(meta), size: Size::from_code(meta >> 2) };
        Site { instruction: (number % usize::from(instructions.max(1))) as u16, access }
    };
    Block {
        instructions: (0..instructions).map(instruction).collect(),
        sites: metas.iter().enumerate().map(site).collect(),
        code: (0..4 * instructions).map(|byte| byte as u8).collect(),
        end: BlockEnd::from_code((start % 5) as u8).unwrap(),
    }
}

pub fn map(start: u64, bytes: u64) -> Event {
    let protection = Protection { read: true, write: true, execute: start.is_multiple_of(8192) };
    Event::Map(Mapping { protection, ..Mapping::anonymous(VirtAddr(start), bytes) })
}

impl Stream {
    /// Executes a block; `address` gives the address of each reference by its number in the block.
    pub fn execute(&mut self, block: BlockId, address: impl Fn(usize) -> u64) {
        let metas: Vec<u8> = self.blocks.get(block).metas().collect();
        let make = |(number, meta)| Ref::from_parts(address(number) % Ref::ADDRESS_END, meta);
        let refs: Vec<Ref> = metas.into_iter().enumerate().map(make).collect();
        let (thread, space, first, first_instruction) =
            (self.thread, self.space, self.refs, self.instructions);
        self.refs += refs.len() as u64;
        self.instructions += self.blocks.get(block).instructions.len() as u64;
        self.steps.push(Step::Execution { block, refs, thread, space, first, first_instruction });
    }

    pub fn event(&mut self, event: Event) {
        self.thread = event.switches_to().unwrap_or(self.thread);
        self.steps.push(Step::Event { at: self.refs, event });
    }

    /// Plays the stream in batches of up to `batch` executions.
    pub fn play(&self, batch: usize, to: &mut dyn Analysis) {
        let mut rest = &self.steps[..];
        while let Some(step) = rest.first() {
            match step {
                Step::Event { at, event } => {
                    to.on_event(RefIndex(*at), event);
                    rest = &rest[1..];
                }
                Step::Execution { thread, space, first, first_instruction, .. } => {
                    let (mut spans, mut all) = (vec![], vec![]);
                    let (mut next_ref, mut next_instruction) = (*first, *first_instruction);
                    while let Some(Step::Execution {
                        block,
                        refs,
                        thread: t,
                        space: s,
                        first: f,
                        first_instruction: i,
                    }) = rest.first()
                        && spans.len() < batch
                        && (t, s, *f, *i) == (thread, space, next_ref, next_instruction)
                    {
                        spans.push(Span { block: *block, first: all.len() as u32 });
                        all.extend_from_slice(refs);
                        next_ref += refs.len() as u64;
                        next_instruction += self.blocks.get(*block).instructions.len() as u64;
                        rest = &rest[1..];
                    }
                    to.on_batch(&Batch {
                        space: *space,
                        thread: *thread,
                        first: RefIndex(*first),
                        first_instruction: *first_instruction,
                        refs: &all,
                        spans: &spans,
                        wide: all.iter().any(|reference| reference.size().bytes() > Batch::WIDE_BYTES),
                        blocks: &self.blocks,
                    });
                }
            }
        }
    }

    /// The stream as a file, with chunks of about `chunk` records.
    pub fn to_file(&self, batch: usize, chunk: u64) -> Vec<u8> {
        let mut file = Vec::new();
        let mut writer = Writer::with_chunk_records(&mut file, &header(), chunk).unwrap();
        self.play(batch, &mut writer);
        writer.finish().unwrap();
        file
    }
}

/// A disk with one file that is full after some bytes. Clones share the disk.
#[derive(Clone)]
pub struct Disk {
    file: Arc<Mutex<Vec<u8>>>,
    room: usize,
}

impl Disk {
    pub fn new(room: usize) -> Disk {
        Disk { file: Arc::default(), room }
    }

    /// What was written.
    pub fn file(&self) -> Vec<u8> {
        self.file.lock().unwrap().clone()
    }
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut file = self.file.lock().unwrap();
        let fits = bytes.len().min(self.room - file.len());
        file.extend_from_slice(&bytes[..fits]);
        if fits == 0 && !bytes.is_empty() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(fits) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Everything that a file yields, with its blocks, and the error that ended it. Takes the rooms of some batches.
pub fn read(file: &[u8]) -> (Vec<Step>, Vec<Block>, Option<SourceError>) {
    let mut steps = Vec::new();
    let mut reader = match Reader::new(file) {
        Ok(reader) => reader,
        Err(error) => return (steps, vec![], Some(error)),
    };
    let mut room = BatchRoom::default();
    let error = loop {
        match reader.next_item() {
            Ok(Some(Item::Batch(batch))) => {
                take_batch(&batch, &mut steps);
                let (refs, spans) = (batch.refs.to_vec(), batch.spans.to_vec());
                if steps.len() % 2 == 0 {
                    reader.give_room(&mut room);
                    assert_eq!(room.refs[room.first_ref..][..refs.len()], refs);
                    assert_eq!(room.spans[..spans.len()], spans);
                }
            }
            Ok(Some(Item::Event { at, event })) => steps.push(Step::Event { at: at.0, event }),
            Ok(None) => break None,
            Err(error) => break Some(error),
        }
    };
    assert!(matches!(reader.next_item(), Ok(None)), "after its end or an error a reader stays at its end");
    (steps, reader.blocks().since(0).cloned().collect(), error)
}

fn take_batch(batch: &Batch<'_>, steps: &mut Vec<Step>) {
    assert!(!batch.spans.is_empty());
    assert_eq!(batch.wide, batch.refs.iter().any(|reference| reference.size().bytes() > Batch::WIDE_BYTES));
    let mut first_instruction = batch.first_instruction;
    for (number, span) in batch.spans.iter().enumerate() {
        steps.push(Step::Execution {
            block: span.block,
            refs: batch.refs[span.first as usize..batch.span_end(number)].to_vec(),
            thread: batch.thread,
            space: batch.space,
            first: batch.first.0 + u64::from(span.first),
            first_instruction,
        });
        first_instruction += batch.blocks.get(span.block).instructions.len() as u64;
    }
}
