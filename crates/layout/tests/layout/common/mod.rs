//! Small programs that load shared objects: streams made event by event.

use pagewalk_trace::{
    Analysis, Batch, BatchBuffer, Block, BlockEnd, Dictionary, Event, FileIdentity, Instruction, Item,
    Mapping, MappingKind, Origin, Protection, Ref, Site, Source, SourceError, Span, StreamHeader,
};
use pagewalk_units::{Access, Kind, RefIndex, Size, SpaceId, ThreadId, VirtAddr};

pub const PAGE: u64 = 4096;

pub fn header() -> StreamHeader {
    StreamHeader { program: "/bin/program".into(), ..StreamHeader::unknown(Origin::Start) }
}

/// The rights of a mapping, as `r-x` has them.
pub fn rights(text: &str) -> Protection {
    let has = |letter| text.contains(letter);
    Protection { read: has('r'), write: has('w'), execute: has('x') }
}

/// Pages of a file.
pub fn file(path: &str, start: u64, pages: u64, offset_pages: u64, protection: &str) -> Event {
    let build_id = path.contains(".so").then(|| format!("{:02x}", path.len()));
    let file = FileIdentity { path: path.to_owned(), offset: offset_pages * PAGE, build_id };
    mapping(start, pages, protection, MappingKind::File, Some(file))
}

/// Anonymous pages.
pub fn anonymous(start: u64, pages: u64) -> Event {
    mapping(start, pages, "rw", MappingKind::Anonymous, None)
}

pub fn mapping(
    start: u64,
    pages: u64,
    protection: &str,
    kind: MappingKind,
    file: Option<FileIdentity>,
) -> Event {
    let (start, bytes) = (VirtAddr(start), pages * PAGE);
    Event::Map(Mapping { start, bytes, protection: rights(protection), kind, file, page_bytes: 4096 })
}

pub fn unmap(start: u64, pages: u64) -> Event {
    Event::Unmap { start: VirtAddr(start), bytes: pages * PAGE }
}

/// What a loader does for an object with text, data and `.bss` of at least a page each.
pub fn load(path: &str, base: u64, text: u64, data: u64, bss: u64) -> Vec<Event> {
    let at = |page: u64| base + page * PAGE;
    let mut events = vec![
        file(path, base, 1 + text + data + bss, 0, "r"),
        file(path, at(1), text, 1, "rx"),
        file(path, at(1 + text), data, 1 + text, "rw"),
    ];
    if bss > 0 {
        events.push(anonymous(at(1 + text + data), bss));
    }
    events
}

/// What exists before a program runs.
pub fn image() -> Vec<Event> {
    vec![
        mapping(0x1_fff0_0000, 16, "rw", MappingKind::Stack, None),
        file("/bin/program", 0x40_0000, 4, 0, "rx"),
        file("/bin/program", 0x40_4000, 2, 4, "rw"),
        anonymous(0x40_6000, 3),
        file("/lib/ld-linux-x86-64.so.2", 0x400_0000, 8, 0, "rx"),
    ]
}

/// One step of a program.
#[derive(Clone, Debug)]
pub enum Step {
    Event(Event),
    /// A block runs.
    Run(Run),
}

/// Instructions at an address, of 4 bytes each, the last of which loads from all these addresses.
#[derive(Clone, Debug)]
pub struct Run {
    pub start: u64,
    pub instructions: u64,
    pub loads: Vec<u64>,
    pub end: BlockEnd,
    pub thread: u32,
}

impl Run {
    pub fn new(start: u64, instructions: u64, loads: &[u64]) -> Run {
        Run { start, instructions, loads: loads.to_vec(), end: BlockEnd::Jump, thread: 1 }
    }

    fn block(&self) -> Block {
        let instruction = |n| Instruction { address: VirtAddr(self.start + 4 * n), length: 4 };
        let site = Site { instruction: (self.instructions.max(1) - 1) as u16, access: access() };
        Block {
            instructions: (0..self.instructions).map(instruction).collect(),
            sites: vec![site; self.loads.len()].into(),
            code: Box::default(),
            end: self.end,
        }
    }
}

pub fn access() -> Access {
    Access { kind: Kind::Load, size: Size::of_bytes(8).unwrap() }
}

/// A source of steps, up to `together` executions in a batch.
pub struct Steps {
    header: StreamHeader,
    steps: std::vec::IntoIter<Step>,
    together: usize,
    blocks: Dictionary,
    buffer: BatchBuffer,
    refs: u64,
    instructions: u64,
}

impl Steps {
    pub fn new(steps: Vec<Step>, together: usize) -> Steps {
        Steps {
            header: header(),
            steps: steps.into_iter(),
            together,
            blocks: Dictionary::default(),
            buffer: BatchBuffer::default(),
            refs: 0,
            instructions: 0,
        }
    }
}

impl Source for Steps {
    fn header(&self) -> &StreamHeader {
        &self.header
    }

    fn next_item(&mut self) -> Result<Option<Item<'_>>, SourceError> {
        self.buffer.clear();
        let (first, first_instruction) = (RefIndex(self.refs), self.instructions);
        let mut thread = None;
        while let Some(step) = self.steps.as_slice().first() {
            match step {
                Step::Event(event) if self.buffer.is_empty() => {
                    let event = event.clone();
                    self.steps.next();
                    return Ok(Some(Item::Event { at: first, event }));
                }
                Step::Run(run)
                    if self.buffer.spans.len() < self.together
                        && thread.is_none_or(|thread| thread == run.thread) =>
                {
                    thread = Some(run.thread);
                    let block = self.blocks.intern(run.block());
                    self.buffer.spans.push(Span { block, first: self.buffer.refs.len() as u32 });
                    let refs = run.loads.iter().map(|&load| Ref::new(VirtAddr(load), access()));
                    self.buffer.refs.extend(refs);
                    self.refs += run.loads.len() as u64;
                    self.instructions += run.instructions;
                    self.steps.next();
                }
                _ => break,
            }
        }
        let Some(thread) = thread else { return Ok(None) };
        let (refs, spans, blocks) = (&self.buffer.refs, &self.buffer.spans, &self.blocks);
        let (space, thread) = (SpaceId(0), ThreadId(thread));
        Ok(Some(Item::Batch(Batch {
            space,
            thread,
            first,
            first_instruction,
            refs,
            spans,
            wide: false,
            blocks,
        })))
    }
}

/// Everything from a source, in comparable form: events, and executions with the addresses of their instructions and
/// loads.
pub fn told(mut source: impl Source) -> Vec<String> {
    let mut told = Vec::new();
    while let Some(item) = source.next_item().unwrap() {
        match item {
            Item::Event { at, event } => told.push(format!("{} {event:?}", at.0)),
            Item::Batch(batch) => executions(&batch, &mut told),
        }
    }
    told
}

pub fn executions(batch: &Batch<'_>, told: &mut Vec<String>) {
    for (index, span) in batch.spans.iter().enumerate() {
        let block = batch.blocks.get(span.block);
        let code: Vec<u64> = block.instructions.iter().map(|i| i.address.0).collect();
        let refs = &batch.refs[span.first as usize..batch.span_end(index)];
        let refs: Vec<u64> = refs.iter().map(|record| record.address().0).collect();
        told.push(format!("{code:x?} {refs:x?} {:?}", block.end));
    }
}

/// Feeds a whole source to an analysis.
pub fn play(mut source: impl Source, to: &mut impl Analysis) {
    while let Some(item) = source.next_item().unwrap() {
        item.play(to);
    }
}

/// The events of some steps, each with whether code ran before.
pub fn events(steps: &[Step]) -> Vec<(bool, Event)> {
    let mut running = false;
    let mut found = Vec::new();
    for step in steps {
        match step {
            Step::Run(_) => running = true,
            Step::Event(event) => found.push((running, event.clone())),
        }
    }
    found
}
