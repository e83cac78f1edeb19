//! The index: the places of frames, and the file's totals.

use super::bytes::Bytes;
use super::chunk::{ChunkHead, Mark, MarkKind};
use super::layout::{Decompressor, FrameBuilder, FrameHead, FrameKind, TRAILER_BYTES, TRAILER_MAGIC};
use crate::Event;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A frame in the index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct IndexedFrame {
    /// The offset of its head in the file.
    pub offset: u64,
    pub kind: String,
    pub records: u64,
    pub instructions: u64,
    pub first_reference: u64,
}

/// The payload of the index frame, as compressed JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Index {
    pub references: u64,
    pub block_executions: u64,
    pub instructions: u64,
    pub blocks: u64,
    pub events: BTreeMap<String, u64>,
    pub frames: Vec<IndexedFrame>,
}

impl Index {
    /// Adds a frame other than a chunk.
    pub fn add(&mut self, offset: u64, head: &FrameHead) {
        if head.kind == FrameKind::Blocks {
            self.blocks = self.blocks.saturating_add(head.records);
        }
        let first_reference = self.references;
        let kind = head.kind.name().to_owned();
        self.frames.push(IndexedFrame {
            offset,
            kind,
            records: head.records,
            instructions: 0,
            first_reference,
        });
    }

    /// Adds a chunk.
    pub fn add_chunk(&mut self, offset: u64, chunk: &ChunkHead) {
        self.references += u64::from(chunk.refs);
        self.block_executions += u64::from(chunk.spans);
        self.instructions = self.instructions.saturating_add(chunk.instructions);
        self.frames.push(IndexedFrame {
            offset,
            kind: FrameKind::Chunk.name().to_owned(),
            records: chunk.records(),
            instructions: chunk.instructions,
            first_reference: chunk.first_ref,
        });
    }

    /// Counts the events among `marks`.
    pub fn count_marks(&mut self, marks: &[Mark]) {
        for mark in marks {
            if let MarkKind::Event(event) = &mark.what {
                count_event(&mut self.events, event);
            }
        }
    }

    /// Data references and block executions.
    pub fn records(&self) -> u64 {
        self.references.saturating_add(self.block_executions)
    }

    /// Writes the index into a frame's payload.
    pub fn put(&self, frame: &mut FrameBuilder) -> std::io::Result<()> {
        frame.put_compressed(&serde_json::to_vec(self)?)?;
        Ok(())
    }

    /// Parses the index in a frame's payload.
    pub fn from_payload(payload: &[u8], raw: u32, zstd: &mut Decompressor) -> Option<Index> {
        let mut text = Vec::new();
        zstd.decompress(payload, raw, &mut text)?;
        serde_json::from_slice(&text).ok()
    }
}

/// Counts an event under its name.
pub(super) fn count_event(events: &mut BTreeMap<String, u64>, event: &Event) {
    *events.entry(event_name(event)).or_default() += 1;
}

/// The name under which events of this kind are counted: that of their JSON.
fn event_name(event: &Event) -> String {
    match serde_json::to_value(event) {
        Ok(serde_json::Value::Object(object)) => object.keys().next().cloned().unwrap_or_default(),
        Ok(serde_json::Value::String(name)) => name,
        _ => String::new(),
    }
}

/// The last bytes of a file, with the offset of the index frame.
pub(super) fn trailer(index_offset: u64) -> [u8; TRAILER_BYTES] {
    let mut bytes = [0; TRAILER_BYTES];
    bytes[..8].copy_from_slice(&index_offset.to_le_bytes());
    bytes[8..12].copy_from_slice(&crc32fast::hash(&index_offset.to_le_bytes()).to_le_bytes());
    bytes[12..].copy_from_slice(&TRAILER_MAGIC);
    bytes
}

/// The offset of the index frame, if `bytes` are a valid trailer.
pub(super) fn index_offset(bytes: &[u8; TRAILER_BYTES]) -> Option<u64> {
    let offset = Bytes(bytes).u64()?;
    (trailer(offset) == *bytes).then_some(offset)
}
