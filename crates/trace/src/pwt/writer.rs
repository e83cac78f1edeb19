//! Writes a stream to a file.

use super::blocks::BlockWriter;
use super::chunk::{ChunkHead, Mark, MarkKind};
use super::encoder::Encoder;
use super::file::{FileWriter, Part, Summary};
use super::index::count_event;
use super::layout::{MAX_CHUNK_COUNT, MAX_SITES};
use super::sink::Sink;
use crate::{Analysis, Batch, Event, StreamHeader};
use pagewalk_units::{RefIndex, SpaceId, ThreadId};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Records per chunk, plus or minus a batch. Predictors restart in each chunk, so small chunks cost bytes.
const CHUNK_RECORDS: u64 = 1 << 22;
/// A chunk also ends at this many bytes of columns, which bounds memory of reader and writer.
const CHUNK_BYTES: usize = 1 << 24;
/// The same for its marks, and for pending blocks.
const MARK_BYTES: usize = 1 << 22;
/// Block executions encoded at a time. Even with the most sites per block they fit a chunk.
const PART_SPANS: usize = 1024;
const _: () = assert!(PART_SPANS * MAX_SITES + CHUNK_RECORDS as usize <= MAX_CHUNK_COUNT as usize);

/// Writes a stream incrementally. Each frame is one write; after an error nothing more is written, and what was written
/// before reads as a truncated trace.
pub struct Writer<W> {
    sink: Sink<W>,
    encoder: Encoder,
    blocks: BlockWriter,
    /// The chunk being filled.
    chunk: ChunkHead,
    marks: Vec<u8>,
    thread: ThreadId,
    space: SpaceId,
    chunk_records: u64,
    /// Numbers of events, by name.
    events: BTreeMap<String, u64>,
    /// What was wrong with the stream.
    error: Option<io::Error>,
}

impl<W: Write> Writer<W> {
    /// Starts a file with its first bytes and the header.
    pub fn new(output: W, header: &StreamHeader) -> io::Result<Self> {
        Self::with_chunk_records(output, header, CHUNK_RECORDS)
    }

    /// The same with chunks of about `records`, for tests and measurements.
    #[doc(hidden)]
    pub fn with_chunk_records(output: W, header: &StreamHeader, records: u64) -> io::Result<Self> {
        FileWriter::new(output, header).map(|file| Self::to(Sink::new(file), records))
    }

    fn to(sink: Sink<W>, chunk_records: u64) -> Self {
        let mut writer = Writer {
            sink,
            encoder: Encoder::default(),
            blocks: BlockWriter::default(),
            chunk: ChunkHead::default(),
            marks: Vec::new(),
            thread: ThreadId(1),
            space: SpaceId(0),
            chunk_records: chunk_records.clamp(1, CHUNK_RECORDS),
            events: BTreeMap::new(),
            error: None,
        };
        writer.start_chunk(0, 0);
        writer
    }

    /// The error that stopped the writing, if any. With a writing thread, it may appear a chunk later.
    pub fn error(&self) -> Option<&io::Error> {
        self.sink.failure().or(self.error.as_ref())
    }

    /// Ends the file. Returns the first error, if any.
    pub fn finish(mut self) -> io::Result<Summary> {
        if self.error().is_none() {
            self.end_chunk();
            self.write_blocks();
        }
        self.sink.finish(self.error, self.events)
    }

    /// Passes on pending blocks, without a chunk.
    fn write_blocks(&mut self) {
        self.sink.write(Part { blocks: std::mem::take(&mut self.blocks), ..Part::default() });
    }

    fn start_chunk(&mut self, first_ref: u64, first_instruction: u64) {
        let (thread, space) = (self.thread, self.space);
        self.chunk = ChunkHead { first_ref, first_instruction, thread, space, ..ChunkHead::default() };
        self.marks.clear();
        self.encoder.start_chunk();
    }

    /// Passes on the chunk with the blocks that it needs, and starts the next.
    fn end_chunk(&mut self) {
        if self.chunk.is_empty() {
            return;
        }
        let (next_ref, next_instruction) = (self.next_ref(), self.next_instruction());
        self.chunk.blocks = self.encoder.table.entries.len() as u32;
        let empty = self.sink.write(Part {
            blocks: std::mem::take(&mut self.blocks),
            chunk: self.chunk,
            columns: std::mem::take(&mut self.encoder.columns),
            marks: std::mem::take(&mut self.marks),
        });
        (self.encoder.columns, self.marks) = (empty.columns, empty.marks);
        self.start_chunk(next_ref, next_instruction);
    }

    /// The number of the next reference, if nothing is missing.
    fn next_ref(&self) -> u64 {
        self.chunk.first_ref + u64::from(self.chunk.refs)
    }

    fn next_instruction(&self) -> u64 {
        self.chunk.first_instruction + self.chunk.instructions
    }

    fn mark(&mut self, what: MarkKind) -> io::Result<()> {
        serde_json::to_writer(&mut self.marks, &Mark { span: self.chunk.spans, what })?;
        self.marks.push(b'\n');
        self.chunk.marks += 1;
        if self.marks.len() >= MARK_BYTES {
            self.end_chunk();
        }
        Ok(())
    }

    fn batch(&mut self, batch: &Batch<'_>) -> io::Result<()> {
        if batch.spans.is_empty() {
            return if batch.refs.is_empty() {
                Ok(())
            } else {
                Err(bad("references without a block execution".into()))
            };
        }
        for block in batch.blocks.since(self.encoder.table.entries.len()) {
            self.encoder.table.add(block).map_err(bad)?;
            self.blocks.push(block).map_err(bad)?;
            if self.blocks.len() >= MARK_BYTES {
                self.write_blocks();
            }
        }
        self.go_to(batch.first.0, Some(batch.first_instruction));
        if (batch.thread, batch.space) != (self.thread, self.space) {
            (self.thread, self.space) = (batch.thread, batch.space);
            self.mark(MarkKind::Runs { thread: batch.thread.0, space: batch.space.0 })?;
        }
        // In parts, so that no batch makes a chunk larger than the format allows.
        let (mut first, mut spans) = (0, batch.spans);
        while !spans.is_empty() {
            let (part, rest) = spans.split_at(spans.len().min(PART_SPANS));
            let end = rest.first().map_or(batch.refs.len(), |span| span.first as usize);
            let refs = batch.refs.get(first..end).ok_or_else(|| bad("spans are not in order".into()))?;
            self.chunk.instructions += self.encoder.push(part, refs, first).map_err(bad)?;
            self.chunk.spans += part.len() as u32;
            self.chunk.refs += refs.len() as u32;
            if self.chunk.records() >= self.chunk_records || self.encoder.columns.len() >= CHUNK_BYTES {
                self.end_chunk();
            }
            (first, spans) = (end, rest);
        }
        Ok(())
    }

    /// Moves to the given place: after a gap, the stream continues in a new chunk.
    fn go_to(&mut self, first_ref: u64, first_instruction: Option<u64>) {
        let instruction = first_instruction.unwrap_or(self.next_instruction());
        if (first_ref, instruction) != (self.next_ref(), self.next_instruction()) {
            self.end_chunk();
            self.chunk.first_ref = first_ref;
            self.chunk.first_instruction = instruction;
        }
    }

    fn event(&mut self, at: RefIndex, event: &Event) -> io::Result<()> {
        self.go_to(at.0, None);
        count_event(&mut self.events, event);
        if let Some(thread) = event.switches_to() {
            self.thread = thread;
        }
        self.mark(MarkKind::Event(event.clone()))
    }

    /// Does `work` unless an earlier error stopped the writing.
    fn unless_failed(&mut self, work: impl FnOnce(&mut Self) -> io::Result<()>) {
        if self.error().is_none() {
            self.error = work(self).err();
        }
    }
}

impl<W: Write + Send + 'static> Writer<W> {
    /// As [`Writer::new`], compressing and writing on a separate thread if there is a processor for it. The bytes are
    /// the same.
    pub fn with_thread(output: W, header: &StreamHeader) -> io::Result<Self> {
        FileWriter::new(output, header).map(|file| Self::to(Sink::with_thread(file), CHUNK_RECORDS))
    }

    /// The same with chunks of about `records`, for tests and measurements.
    #[doc(hidden)]
    pub fn with_thread_and_chunk_records(output: W, header: &StreamHeader, records: u64) -> io::Result<Self> {
        FileWriter::new(output, header).map(|file| Self::to(Sink::with_thread(file), records))
    }
}

impl<W: Write + Send> Analysis for Writer<W> {
    fn on_batch(&mut self, batch: &Batch<'_>) {
        self.unless_failed(|writer| writer.batch(batch));
    }

    fn on_event(&mut self, at: RefIndex, event: &Event) {
        self.unless_failed(|writer| writer.event(at, event));
    }
}

/// The error for a stream that no file can hold.
fn bad(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}
