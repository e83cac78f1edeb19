//! A chunk as one frame: a fixed head, then the compressed columns.

use super::bytes::Bytes;
use super::encoder::Columns;
use super::layout::{Decompressor, FrameBuilder, MAX_CHUNK_COUNT, parts};
use crate::Event;
use pagewalk_units::{SpaceId, ThreadId};
use serde::{Deserialize, Serialize};
use std::io;

/// Columns and marks.
const PARTS: usize = Columns::COUNT + 1;

/// What happens between two block executions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum MarkKind {
    /// An event of the stream.
    Event(Event),
    /// Another thread or address space runs, without an event for it.
    Runs { thread: u32, space: u32 },
}

/// A line of the marks part, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mark {
    /// Block executions of the chunk before it.
    pub span: u32,
    /// What is there.
    pub what: MarkKind,
}

/// The fields of a chunk's head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ChunkHead {
    /// Data references of the stream before the chunk.
    pub first_ref: u64,
    /// Instructions of the stream before the chunk.
    pub first_instruction: u64,
    /// Instructions executed in the chunk.
    pub instructions: u64,
    /// Block executions in the chunk.
    pub spans: u32,
    /// Data references in the chunk.
    pub refs: u32,
    /// The chunk may name blocks with ids below this.
    pub blocks: u32,
    /// The thread at the chunk's beginning.
    pub thread: ThreadId,
    /// Its address space.
    pub space: SpaceId,
    /// Number of marks.
    pub marks: u32,
}

impl ChunkHead {
    /// Data references and block executions.
    pub fn records(&self) -> u64 {
        u64::from(self.spans) + u64::from(self.refs)
    }

    /// Whether there is nothing in the chunk.
    pub fn is_empty(&self) -> bool {
        self.spans == 0 && self.marks == 0
    }

    fn to_bytes(self) -> Vec<u8> {
        let long = [self.first_ref, self.first_instruction, self.instructions];
        let short = [self.spans, self.refs, self.blocks, self.thread.0, self.space.0, self.marks];
        [long.map(u64::to_le_bytes).concat(), short.map(u32::to_le_bytes).concat()].concat()
    }

    fn take(from: &mut Bytes<'_>) -> Option<ChunkHead> {
        let head = ChunkHead {
            first_ref: from.u64()?,
            first_instruction: from.u64()?,
            instructions: from.u64()?,
            spans: from.u32()?,
            refs: from.u32()?,
            blocks: from.u32()?,
            thread: ThreadId(from.u32()?),
            space: SpaceId(from.u32()?),
            marks: from.u32()?,
        };
        (head.spans <= MAX_CHUNK_COUNT && head.refs <= MAX_CHUNK_COUNT).then_some(head)
    }
}

/// Writes a chunk into a frame's payload.
pub(super) fn put_chunk(
    frame: &mut FrameBuilder,
    head: &ChunkHead,
    columns: &Columns,
    marks: &[u8],
) -> io::Result<()> {
    frame.put(&head.to_bytes());
    let [block_control, block_numbers, ref_control, ref_runs, differences] = columns.all();
    frame.put_parts([block_control, block_numbers, ref_control, ref_runs, differences, marks])
}

/// A chunk's compressed parts.
pub(super) struct StoredChunk<'a> {
    pub head: ChunkHead,
    parts: [(u32, &'a [u8]); PARTS],
}

impl<'a> StoredChunk<'a> {
    pub fn parse(payload: &'a [u8]) -> Option<Self> {
        let mut payload = Bytes(payload);
        let head = ChunkHead::take(&mut payload)?;
        Some(StoredChunk { head, parts: parts(payload)? })
    }

    /// Decompresses the columns into reused memory.
    pub fn columns(&self, zstd: &mut Decompressor, into: &mut Columns) -> Option<()> {
        let parts = self.parts.iter().zip(into.all_mut());
        parts.map(|(&(raw, stored), column)| zstd.decompress(stored, raw, column)).collect()
    }

    /// The marks in order.
    pub fn marks(&self, zstd: &mut Decompressor) -> Option<Vec<Mark>> {
        let (raw, stored) = self.parts[Columns::COUNT];
        let mut text = Vec::new();
        zstd.decompress(stored, raw, &mut text)?;
        let marks: Result<Vec<Mark>, _> = serde_json::Deserializer::from_slice(&text).into_iter().collect();
        let marks = marks.ok().filter(|marks| marks.len() == self.head.marks as usize)?;
        let ordered = marks.is_sorted_by_key(|mark| mark.span);
        let within = marks.last().is_none_or(|mark| mark.span <= self.head.spans);
        (ordered && within).then_some(marks)
    }
}
