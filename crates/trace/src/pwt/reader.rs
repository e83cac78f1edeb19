//! Reads a stream from a file.

use super::blocks::read_blocks;
use super::chunk::{ChunkHead, Mark, MarkKind, StoredChunk};
use super::decoder::{DecodedCounts, Decoder};
use super::index::Index;
use super::layout::{Decompressor, FrameHead, FrameKind, FrameReader, SURPLUS, TRAILER_BYTES};
use crate::{Batch, BatchRoom, Dictionary, Event, Item, Source, SourceError, StreamHeader};
use pagewalk_units::{RefIndex, SpaceId, ThreadId};
use std::io::Read;

/// Reads a file from its beginning, a chunk at a time. After an error it is at its end.
pub struct Reader<R> {
    frames: FrameReader<R>,
    zstd: Decompressor,
    header: StreamHeader,
    blocks: Dictionary,
    decoder: Decoder,
    /// The chunk being read.
    chunk: ChunkHead,
    /// The offset of its frame.
    chunk_offset: u64,
    marks: std::iter::Peekable<std::vec::IntoIter<Mark>>,
    thread: ThreadId,
    space: SpaceId,
    /// Block executions and references read of the chunk.
    spans: u32,
    refs: u32,
    instructions: u64,
    /// Data references and block executions read of the file.
    records: u64,
    /// Whether chunks' columns stay unread.
    leaves_batches_out: bool,
    finished: bool,
}

impl<R: Read> Reader<R> {
    /// Reads the file's first bytes and its header.
    pub fn new(input: R) -> Result<Self, SourceError> {
        let mut frames = FrameReader::new(input)?;
        let header = read_header(&mut frames)?;
        Ok(Reader {
            frames,
            zstd: Decompressor::new()?,
            header,
            blocks: Dictionary::default(),
            decoder: Decoder::default(),
            chunk: ChunkHead::default(),
            chunk_offset: 0,
            marks: Vec::new().into_iter().peekable(),
            thread: ThreadId(0),
            space: SpaceId(0),
            spans: 0,
            refs: 0,
            instructions: 0,
            records: 0,
            leaves_batches_out: false,
            finished: false,
        })
    }

    /// The blocks read so far.
    pub fn blocks(&self) -> &Dictionary {
        &self.blocks
    }

    /// Continues to the next non-empty chunk, or the end.
    fn next_chunk(&mut self) -> Result<(), SourceError> {
        loop {
            let start = self.frames.offset;
            let Some(head) = self.frames.next()? else {
                return Err(SourceError::Truncated(format!(
                    "the trace is cut off at byte {start}: its end mark is missing, so something may have followed \
                     the {} records read",
                    self.records
                )));
            };
            match head.kind {
                FrameKind::Header => return Err(malformed(start, "a second header")),
                FrameKind::Blocks => self.take_blocks(start, &head)?,
                FrameKind::Chunk => {
                    self.take_chunk(start, &head)?;
                    return Ok(());
                }
                FrameKind::Index => {
                    let index = Index::from_payload(&self.frames.payload, head.raw, &mut self.zstd);
                    let index = index.ok_or_else(|| malformed(start, "no index in an index frame"))?;
                    if index.records() != self.records {
                        let records = index.records();
                        let why =
                            format!("the file held {records} records when written and has {}", self.records);
                        return Err(malformed(start, &why));
                    }
                    self.finished = true;
                    let end = self.frames.offset + TRAILER_BYTES as u64;
                    if self.frames.has_surplus()? {
                        return Err(SourceError::Malformed(format!("{SURPLUS} {end}")));
                    }
                    return Ok(());
                }
            }
        }
    }

    fn take_blocks(&mut self, start: u64, head: &FrameHead) -> Result<(), SourceError> {
        let blocks = read_blocks(&self.frames.payload, head.records, self.decoder.table.room, &mut self.zstd);
        for block in blocks.ok_or_else(|| malformed(start, "a blocks frame that holds something else"))? {
            let number = self.blocks.len();
            self.decoder.table.add(&block).map_err(|why| malformed(start, &why))?;
            if self.blocks.intern(block).index() != number {
                return Err(malformed(start, "the same block twice"));
            }
        }
        Ok(())
    }

    fn take_chunk(&mut self, start: u64, head: &FrameHead) -> Result<(), SourceError> {
        let wrong = |why| move || malformed(start, why);
        let stored =
            StoredChunk::parse(&self.frames.payload).ok_or_else(wrong("a chunk with an impossible head"))?;
        self.chunk = stored.head;
        if self.chunk.records() != head.records {
            return Err(malformed(start, "a chunk that holds another number of records than its frame says"));
        }
        let marks =
            stored.marks(&mut self.zstd).ok_or_else(wrong("a chunk with events that make no sense"))?;
        self.marks = marks.into_iter().peekable();
        self.chunk_offset = start;
        (self.thread, self.space) = (self.chunk.thread, self.chunk.space);
        (self.spans, self.refs, self.instructions) = (0, 0, 0);
        if self.leaves_batches_out {
            self.spans = self.chunk.spans;
            return Ok(());
        }
        stored
            .columns(&mut self.zstd, &mut self.decoder.columns)
            .ok_or_else(wrong("a chunk with columns that do not decompress"))?;
        self.decoder
            .start_chunk(self.chunk.blocks)
            .map_err(|why| malformed(start, &format!("a chunk: {why}")))
    }

    /// Checks that the chunk matched its head.
    fn end_chunk(&mut self) -> Result<(), SourceError> {
        if self.chunk == ChunkHead::default() {
            return Ok(());
        }
        let chunk = std::mem::take(&mut self.chunk);
        if !self.leaves_batches_out {
            let result = self.decoder.finish();
            let counts = self.refs == chunk.refs && self.instructions == chunk.instructions;
            let result = result.and(if counts { Ok(()) } else { Err(UNEQUAL) });
            result.map_err(|why| malformed(self.chunk_offset, &format!("a chunk: {why}")))?;
        }
        self.records += chunk.records();
        (self.spans, self.refs) = (0, 0);
        Ok(())
    }

    /// The event here, if any; applies changes of thread and space on the way.
    fn event_here(&mut self) -> Option<Event> {
        while let Some(mark) = self.marks.next_if(|mark| mark.span <= self.spans) {
            match mark.what {
                MarkKind::Event(event) => {
                    self.thread = event.switches_to().unwrap_or(self.thread);
                    return Some(event);
                }
                MarkKind::Runs { thread, space } => {
                    (self.thread, self.space) = (ThreadId(thread), SpaceId(space))
                }
            }
        }
        None
    }

    /// Continues to the next item: decodes a batch, reads an event, or finds the end.
    fn advance(&mut self) -> Result<Step, SourceError> {
        loop {
            if let Some(event) = self.event_here() {
                return Ok(Step::Event(event));
            }
            if self.spans < self.chunk.spans {
                let until = self.marks.peek().map_or(self.chunk.spans, |mark| mark.span);
                let decoded = self.decoder.batch((until - self.spans) as usize);
                let fits = |decoded: &DecodedCounts| decoded.refs <= (self.chunk.refs - self.refs) as usize;
                let decoded =
                    decoded.and_then(|decoded| if fits(&decoded) { Ok(decoded) } else { Err(UNEQUAL) });
                let decoded =
                    decoded.map_err(|why| malformed(self.chunk_offset, &format!("a chunk: {why}")))?;
                return Ok(Step::Batch(decoded));
            }
            self.end_chunk()?;
            self.next_chunk()?;
            if self.finished {
                return Ok(Step::End);
            }
        }
    }

    /// Place of the next data reference.
    fn next_ref(&self) -> RefIndex {
        RefIndex(self.chunk.first_ref.wrapping_add(self.refs.into()))
    }

    fn batch(&mut self, decoded: DecodedCounts) -> Batch<'_> {
        let first = self.next_ref();
        let first_instruction = self.chunk.first_instruction.wrapping_add(self.instructions);
        self.spans += decoded.spans as u32;
        self.refs += decoded.refs as u32;
        self.instructions += decoded.instructions;
        let (spans, refs) = self.decoder.decoded(&decoded);
        let (space, thread, wide) = (self.space, self.thread, decoded.wide);
        Batch { space, thread, first, first_instruction, refs, spans, wide, blocks: &self.blocks }
    }
}

const UNEQUAL: &str = "its blocks do not add up to what its head says";

/// The result of [`Reader::advance`].
enum Step {
    Batch(DecodedCounts),
    Event(Event),
    End,
}

impl<R: Read> Source for Reader<R> {
    fn header(&self) -> &StreamHeader {
        &self.header
    }

    fn gives_rooms(&self) -> bool {
        true
    }

    fn give_room(&mut self, for_another: &mut BatchRoom) {
        self.decoder.give_room(for_another);
    }

    /// What is left of the chunk, and all chunks after it, tell only their events.
    fn leave_batches_out(&mut self) {
        self.leaves_batches_out = true;
        self.spans = self.chunk.spans;
    }

    fn next_item(&mut self) -> Result<Option<Item<'_>>, SourceError> {
        if self.finished {
            return Ok(None);
        }
        match self.advance() {
            Ok(Step::Batch(decoded)) => Ok(Some(Item::Batch(self.batch(decoded)))),
            Ok(Step::Event(event)) => Ok(Some(Item::Event { at: self.next_ref(), event })),
            Ok(Step::End) => Ok(None),
            Err(error) => {
                self.finished = true;
                Err(error)
            }
        }
    }
}

/// Reads the first frame, which must be the header.
pub(super) fn read_header<R: Read>(frames: &mut FrameReader<R>) -> Result<StreamHeader, SourceError> {
    let start = frames.offset;
    let head = frames.next()?.ok_or_else(|| {
        SourceError::Truncated(format!(
            "the trace is cut off at byte {start}, before its header: nothing is left of it"
        ))
    })?;
    if head.kind != FrameKind::Header {
        return Err(malformed(start, "the first frame is not the header"));
    }
    serde_json::from_slice(&frames.payload).map_err(|error| malformed(start, &format!("the header: {error}")))
}

/// An error in the frame at byte `start`.
pub(super) fn malformed(start: u64, what: &str) -> SourceError {
    SourceError::Malformed(format!("at byte {start} of the trace: {what}"))
}

#[cfg(test)]
mod tests {
    use super::super::file::{FileWriter, Part};
    use super::super::table::Table;
    use super::*;
    use crate::{Block, BlockEnd, Instruction, Origin, Ref};
    use pagewalk_units::VirtAddr;

    fn header() -> StreamHeader {
        StreamHeader::unknown(Origin::Start)
    }

    fn block(address: u64) -> Block {
        let instructions = [0x1000, address].map(|at| Instruction { address: VirtAddr(at), length: 4 });
        let (instructions, end) = (instructions.into(), BlockEnd::Jump);
        Block { instructions, sites: Box::default(), code: Box::default(), end }
    }

    /// The result of reading a file with two blocks, the second with an instruction at this address.
    fn read(address: u64) -> Result<(), SourceError> {
        let (mut bytes, mut part) = (Vec::new(), Part::default());
        for block in [block(0x2000), block(address)] {
            part.blocks.push(&block).unwrap();
        }
        let mut file = FileWriter::new(&mut bytes, &header()).unwrap();
        file.write(&part).unwrap();
        file.finish(Default::default()).unwrap();
        Reader::new(bytes.as_slice())?.next_item().map(|_| ())
    }

    #[test]
    fn instructions_above_the_addresses_of_records_are_refused() {
        let last = Ref::ADDRESS_END - 1;
        assert!(read(last).is_ok());
        assert!(Table::default().add(&block(last)).is_ok());
        for address in [Ref::ADDRESS_END, 0xffff_ffff_ff60_0000, u64::MAX] {
            let named = |number: usize| {
                format!(
                    "block {number} has an instruction at {address:#x}, above the 57 bits of an address in the trace \
                     format: addresses lie below 0x200000000000000"
                )
            };
            let why = read(address).unwrap_err().to_string();
            assert!(why.starts_with("at byte ") && why.ends_with(&named(1)), "{why}");
            assert_eq!(Table::default().add(&block(address)), Err(named(0)), "nor are they written");
        }
    }
}
