//! The events of a file, without decoding its references.

use super::chunk::{StoredChunk, What};
use super::layout::{Decompressor, FrameKind, FrameReader};
use super::reader::{malformed, read_header};
use crate::{Event, SourceError, StreamHeader};
use std::io::Read;

/// The events of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Events {
    /// The stream.
    pub header: StreamHeader,
    /// Each with the number of block executions before it.
    pub events: Vec<(u64, Event)>,
}

/// Reads the events of a file. Of a damaged one those before the damage: reading its references tells what that is.
///
/// # Errors
/// If not even the header can be read.
pub fn events<R: Read>(file: R) -> Result<Events, SourceError> {
    let mut frames = FrameReader::new(file)?;
    let header = read_header(&mut frames)?;
    let mut events = Vec::new();
    match read_events(&mut frames, &mut events) {
        Ok(()) | Err(SourceError::Malformed(_) | SourceError::Truncated(_)) => Ok(Events { header, events }),
        Err(error) => Err(error),
    }
}

fn read_events<R: Read>(
    frames: &mut FrameReader<R>,
    events: &mut Vec<(u64, Event)>,
) -> Result<(), SourceError> {
    let mut zstd = Decompressor::new()?;
    let mut executions = 0u64;
    loop {
        let start = frames.offset;
        match frames.next()? {
            Some(head) if head.kind == FrameKind::Chunk => {}
            Some(head) if head.kind == FrameKind::Index => return Ok(()),
            Some(_) => continue,
            None => return Ok(()),
        }
        let chunk = StoredChunk::parse(&frames.payload);
        let chunk = chunk.ok_or_else(|| malformed(start, "a chunk with an impossible head"))?;
        let marks = chunk.marks(&mut zstd);
        for mark in marks.ok_or_else(|| malformed(start, "a chunk with events that make no sense"))? {
            if let What::Event(event) = mark.what {
                events.push((executions + u64::from(mark.span), event));
            }
        }
        executions += u64::from(chunk.head.spans);
    }
}
