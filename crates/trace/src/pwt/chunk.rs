//! A chunk as one frame: a fixed head, then the compressed columns.

use super::bytes::Bytes;
use super::encode::Columns;
use super::layout::{MAX_CHUNK_COUNT, MAX_FRAME_BYTES, decompress};
use crate::Event;
use pagewalk_units::{SpaceId, ThreadId};
use serde::{Deserialize, Serialize};
use std::io;

/// Columns and marks.
const PARTS: usize = Columns::COUNT + 1;

/// Something with a place between two block executions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum What {
    /// An event of the stream.
    Event(Event),
    /// Another thread or address space runs on, without an event that says so.
    Runs { thread: u32, space: u32 },
}

/// A line of the marks part, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mark {
    /// Block executions of the chunk before it.
    pub span: u32,
    /// What is there.
    pub what: What,
}

/// What the head of a chunk states.
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
    /// Blocks of the dictionary that the chunk may name: ids below this.
    pub blocks: u32,
    /// Who runs at the chunk's begin.
    pub thread: ThreadId,
    /// Where.
    pub space: SpaceId,
    /// Marks.
    pub marks: u32,
}

impl ChunkHead {
    /// Data references and block executions.
    pub fn records(&self) -> u64 {
        u64::from(self.spans) + u64::from(self.refs)
    }

    fn put(&self, to: &mut Vec<u8>) {
        for word in [self.first_ref, self.first_instruction, self.instructions] {
            to.extend_from_slice(&word.to_le_bytes());
        }
        for word in [self.spans, self.refs, self.blocks, self.thread.0, self.space.0, self.marks] {
            to.extend_from_slice(&word.to_le_bytes());
        }
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

/// The payload of a chunk's frame, and its size before compression.
pub(super) fn write_chunk(
    head: &ChunkHead,
    columns: &Columns,
    marks: &[u8],
    zstd: &mut zstd::bulk::Compressor<'_>,
) -> io::Result<(Vec<u8>, usize)> {
    let mut payload = Vec::new();
    head.put(&mut payload);
    let sizes = payload.len();
    payload.resize(sizes + PARTS * 8, 0);
    let mut raw = 0;
    let parts = columns.all().into_iter().map(Vec::as_slice).chain([marks]);
    for (number, part) in parts.enumerate() {
        let start = payload.len();
        payload.resize(start + zstd::zstd_safe::compress_bound(part.len()), 0);
        let stored = zstd.compress_to_buffer(part, &mut payload[start..])?;
        payload.truncate(start + stored);
        let size = &mut payload[sizes + number * 8..][..8];
        size[..4].copy_from_slice(&(part.len() as u32).to_le_bytes());
        size[4..].copy_from_slice(&(stored as u32).to_le_bytes());
        raw += part.len();
    }
    Ok((payload, raw))
}

/// A chunk's parts, still compressed.
pub(super) struct StoredChunk<'a> {
    pub head: ChunkHead,
    parts: [(u32, &'a [u8]); PARTS],
}

impl<'a> StoredChunk<'a> {
    pub fn parse(payload: &'a [u8]) -> Option<Self> {
        let mut payload = Bytes(payload);
        let head = ChunkHead::take(&mut payload)?;
        let mut parts = [(0, &[][..]); PARTS];
        let mut lengths = [0; PARTS];
        let mut raw = 0;
        for (part, length) in parts.iter_mut().zip(&mut lengths) {
            part.0 = payload.u32()?;
            *length = payload.u32()? as usize;
            raw += part.0 as usize;
        }
        for (part, length) in parts.iter_mut().zip(lengths) {
            part.1 = payload.take(length)?;
        }
        (payload.0.is_empty() && raw <= MAX_FRAME_BYTES).then_some(StoredChunk { head, parts })
    }

    /// Decompresses the columns into memory that is used again.
    pub fn columns(&self, into: &mut Columns) -> Option<()> {
        let parts = self.parts.iter().zip(into.all_mut());
        parts.map(|((raw, stored), column)| decompress(stored, *raw as usize, column)).collect()
    }

    /// The marks in order of place.
    pub fn marks(&self) -> Option<Vec<Mark>> {
        let (raw, stored) = self.parts[Columns::COUNT];
        let mut text = Vec::new();
        decompress(stored, raw as usize, &mut text)?;
        let marks: Result<Vec<Mark>, _> = serde_json::Deserializer::from_slice(&text).into_iter().collect();
        let marks = marks.ok().filter(|marks| marks.len() == self.head.marks as usize)?;
        let ordered = marks.is_sorted_by_key(|mark| mark.span);
        let within = marks.last().is_none_or(|mark| mark.span <= self.head.spans);
        (ordered && within).then_some(marks)
    }
}
