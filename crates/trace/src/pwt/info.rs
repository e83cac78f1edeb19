//! Summarises a file without decoding its references.

use super::chunk::StoredChunk;
use super::index::{Index, index_offset};
use super::layout::{Decompressor, FrameHead, FrameKind, FrameReader, SURPLUS, TRAILER_BYTES};
use super::reader::{malformed, read_header};
use crate::{SourceError, StreamHeader};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Read, Seek, SeekFrom};

/// A file's summary.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Info {
    /// Version of the format.
    pub version: u32,
    /// The stream.
    pub header: StreamHeader,
    /// Bytes in the file.
    pub bytes: u64,
    /// Data references.
    pub references: u64,
    /// Executions of blocks.
    pub block_executions: u64,
    /// Instructions executed.
    pub instructions: u64,
    /// Different blocks.
    pub blocks: u64,
    /// Events by name.
    pub events: BTreeMap<String, u64>,
    /// Chunks.
    pub chunks: u64,
    /// Frames of all kinds.
    pub frames: u64,
    /// Bytes of the file per data reference or block execution.
    pub bytes_per_record: f64,
    /// The damage, if any. The counts are then those of the part before it.
    pub damage: Option<String>,
}

/// Summarises a file: from its index if that is intact, else from the frames up to the first damaged one. Fails if even
/// the header is unreadable.
pub fn info<R: Read + Seek>(mut file: R) -> Result<Info, SourceError> {
    let bytes = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(0))?;
    let mut frames = FrameReader::new(&mut file)?;
    let start = frames.offset;
    let header = read_header(&mut frames)?;
    let after_header = frames.offset;
    let mut zstd = Decompressor::new()?;
    let (index, damage) = match read_index(&mut file, bytes, &mut zstd)? {
        Some(index) => (index, None),
        None => {
            file.seek(SeekFrom::Start(after_header))?;
            scan(&mut file, start, after_header, &mut zstd)
        }
    };
    let records = index.records();
    let chunks = index.frames.iter().filter(|frame| frame.kind == FrameKind::Chunk.name()).count();
    Ok(Info {
        version: super::VERSION,
        header,
        bytes,
        references: index.references,
        block_executions: index.block_executions,
        instructions: index.instructions,
        blocks: index.blocks,
        events: index.events,
        chunks: chunks as u64,
        frames: index.frames.len() as u64,
        bytes_per_record: if records == 0 { 0.0 } else { bytes as f64 / records as f64 },
        damage,
    })
}

/// The index, if trailer and index frame are intact.
fn read_index<R: Read + Seek>(
    file: &mut R,
    bytes: u64,
    zstd: &mut Decompressor,
) -> io::Result<Option<Index>> {
    let Some(trailer_start) = bytes.checked_sub(TRAILER_BYTES as u64) else { return Ok(None) };
    let mut trailer = [0; TRAILER_BYTES];
    file.seek(SeekFrom::Start(trailer_start))?;
    file.read_exact(&mut trailer)?;
    let Some(offset) = index_offset(&trailer).filter(|&offset| offset < trailer_start) else {
        return Ok(None);
    };
    file.seek(SeekFrom::Start(offset))?;
    let mut frames = FrameReader::at(file, offset);
    match frames.next() {
        Ok(Some(head)) if head.kind == FrameKind::Index && frames.offset == trailer_start => {
            Ok(Index::from_payload(&frames.payload, head.raw, zstd))
        }
        Err(SourceError::Io(error)) => Err(error),
        Ok(_) | Err(_) => Ok(None),
    }
}

/// Builds an index from the frames after byte `offset`, and returns what ended it before the end mark.
fn scan<R: Read>(file: R, header: u64, offset: u64, zstd: &mut Decompressor) -> (Index, Option<String>) {
    let mut index = Index::default();
    let mut frames = FrameReader::at(file, offset);
    index.add(header, &FrameHead { kind: FrameKind::Header, stored: 0, raw: 0, records: 0, checksum: 0 });
    loop {
        let start = frames.offset;
        let damage = match frames.next() {
            Ok(Some(head)) if head.kind == FrameKind::Index => {
                let end = frames.offset + TRAILER_BYTES as u64;
                Some(match frames.has_surplus() {
                    Ok(true) => format!("{SURPLUS} {end}"),
                    _ => "the trace's last 16 bytes are damaged".to_owned(),
                })
            }
            Ok(Some(head)) => match take_frame(&mut index, start, &head, &frames.payload, zstd) {
                Ok(()) => None,
                Err(error) => Some(error.to_string()),
            },
            Ok(None) => Some(format!("the trace is cut off at byte {start}: its end mark is missing")),
            Err(error) => Some(error.to_string()),
        };
        if damage.is_some() {
            return (index, damage);
        }
    }
}

fn take_frame(
    index: &mut Index,
    start: u64,
    head: &FrameHead,
    payload: &[u8],
    zstd: &mut Decompressor,
) -> Result<(), SourceError> {
    if head.kind != FrameKind::Chunk {
        index.add(start, head);
        return Ok(());
    }
    let chunk =
        StoredChunk::parse(payload).ok_or_else(|| malformed(start, "a chunk with an impossible head"))?;
    let marks =
        chunk.marks(zstd).ok_or_else(|| malformed(start, "a chunk with events that make no sense"))?;
    index.add_chunk(start, &chunk.head);
    index.count_marks(&marks);
    Ok(())
}
