//! Writes a stream to a file.

use super::blocks::BlockWriter;
use super::chunk::{ChunkHead, Mark, MarkKind};
use super::encoder::{Encoder, RawChunk};
use super::encoders::Encoders;
use super::file::{FileWriter, Part, Summary, bad_stream};
use super::index::count_event;
use super::layout::{MAX_CHUNK_COUNT, MAX_FRAME_BYTES, MAX_SITES};
use super::sink::Sink;
use crate::{Analysis, Batch, Event, Ref, Span, StreamHeader};
use pagewalk_units::{RefIndex, SpaceId, ThreadId};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Records per chunk, plus or minus a batch. Predictors restart in each chunk, so small chunks cost bytes.
const CHUNK_RECORDS: u64 = 1 << 22;
/// A chunk also ends at this many bytes of marks, and pending blocks are written.
const MARK_BYTES: usize = 1 << 22;
/// Block executions encoded at a time.
const PART_SPANS: usize = 1024;
/// The same for data references, plus a block.
const PART_REFS: usize = 1 << 16;
/// Most records of a chunk.
const MOST_RECORDS: usize = CHUNK_RECORDS as usize + PART_SPANS + PART_REFS + MAX_SITES;
const _: () = assert!(MOST_RECORDS <= MAX_CHUNK_COUNT as usize);
// A column has less than nine bytes a record.
const _: () = assert!(9 * MOST_RECORDS <= MAX_FRAME_BYTES);

/// Writes a stream incrementally. Each frame is one write; after an error nothing more is written, and what was written
/// before reads as a truncated trace.
pub struct Writer<W> {
    sink: Sink<W>,
    encoder: Encoder,
    blocks: BlockWriter,
    /// Threads that encode too, if others shall.
    encoders: Option<Encoders>,
    /// The chunk being filled.
    chunk: ChunkHead,
    /// Its records, if another thread shall encode them, and which.
    raw: Option<(usize, RawChunk)>,
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
            encoders: None,
            chunk: ChunkHead::default(),
            raw: None,
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

    /// The error that stopped the writing, if any. With threads, it may appear some chunks later.
    pub fn error(&self) -> Option<&io::Error> {
        self.sink.failure().or(self.error.as_ref())
    }

    /// Ends the file. Returns the first error, if any.
    pub fn finish(mut self) -> io::Result<Summary> {
        if self.error().is_none() {
            self.end_chunk();
            self.write_blocks();
        } else if let Some((_, mut raw)) = self.raw.take()
            && let Err(earlier) = self.encoder.encode_chunk(&mut raw)
        {
            self.error = Some(bad_stream(earlier));
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
        let mut part = Part {
            blocks: std::mem::take(&mut self.blocks),
            chunk: self.chunk,
            columns: std::mem::take(&mut self.encoder.columns),
            marks: std::mem::take(&mut self.marks),
            encoded: None,
        };
        if let (Some((thread, raw)), Some(encoders)) = (self.raw.take(), &mut self.encoders) {
            part.encoded = Some(encoders.encode(thread, raw, std::mem::take(&mut part.columns)));
        }
        let empty = self.sink.write(part);
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
                Err(bad_stream("references without a block execution".into()))
            };
        }
        let new = batch.blocks.shared_since(self.encoder.table.entries.len());
        self.encoders.iter_mut().for_each(|encoders| encoders.add_blocks(new));
        for block in new {
            self.encoder.table.add(block).map_err(bad_stream)?;
            self.blocks.push(block).map_err(bad_stream)?;
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
            let few = spans.partition_point(|span| (span.first as usize) < first + PART_REFS);
            let (part, rest) = spans.split_at(few.clamp(1, PART_SPANS).min(spans.len()));
            let end = rest.first().map_or(batch.refs.len(), |span| span.first as usize);
            let refs =
                batch.refs.get(first..end).ok_or_else(|| bad_stream("spans are not in order".into()))?;
            self.chunk.instructions += self.push(part, refs, first).map_err(bad_stream)?;
            self.chunk.spans += part.len() as u32;
            self.chunk.refs += refs.len() as u32;
            if self.chunk.records() >= self.chunk_records {
                self.end_chunk();
            }
            (first, spans) = (end, rest);
        }
        Ok(())
    }

    /// See [`Encoder::push`].
    fn push(&mut self, spans: &[Span], refs: &[Ref], base: usize) -> Result<u64, String> {
        // The first chunk may be the only one.
        let is_first = (self.chunk.first_ref, self.chunk.first_instruction) == (0, 0);
        if self.chunk.spans == 0 && !is_first {
            self.raw = self.encoders.as_mut().and_then(Encoders::idle);
            if let Some((_, raw)) = &mut self.raw {
                raw.start(MOST_RECORDS.min(self.chunk_records as usize + PART_REFS));
            }
        }
        let Some((_, raw)) = &mut self.raw else { return self.encoder.push(spans, refs, base) };
        raw.push(spans, refs, base);
        self.encoder.table.instructions(spans)
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
    /// As [`Writer::new`], on several threads if there are processors for them. The bytes are the same.
    pub fn with_thread(output: W, header: &StreamHeader) -> io::Result<Self> {
        Self::with_encoders(output, header, CHUNK_RECORDS, Encoders::of_host())
    }

    /// The same with chunks of about `records`, and so many threads that encode, for tests and measurements.
    #[doc(hidden)]
    pub fn with_encoders(
        output: W,
        header: &StreamHeader,
        records: u64,
        encoders: usize,
    ) -> io::Result<Self> {
        let mut writer = Self::to(Sink::with_thread(FileWriter::new(output, header)?, encoders), records);
        writer.encoders = (encoders > 0).then(|| Encoders::new(encoders));
        Ok(writer)
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
