//! Reads the events of a file without decoding its references.

use super::chunk::{MarkKind, StoredChunk};
use super::layout::{Decompressor, FrameKind, FrameReader};
use super::reader::{malformed, read_header};
use crate::{Event, SourceError, StreamHeader};
use std::io::Read;

/// Most events to hold of one file: 2^22. Programs make thousands of mappings; a file that claims more than this is not
/// from a program.
const MAX_EVENTS: usize = 1 << 22;

/// A file's events.
#[derive(Clone, Debug, PartialEq)]
pub struct Events {
    /// The stream.
    pub header: StreamHeader,
    /// Each with the number of block executions before it.
    pub events: Vec<(u64, Event)>,
}

impl Events {
    /// The events, each with whether code had run before it.
    pub fn in_order(&self) -> impl Iterator<Item = (bool, &Event)> + Clone {
        self.events.iter().map(|(before, event)| (*before > 0, event))
    }
}

/// Reads the wanted events of a file. From a damaged file, those before the damage, which reading its references would
/// report.
///
/// # Errors
/// If even the header is unreadable, or there are more wanted events than any program makes.
pub fn events<R: Read>(file: R, wanted: impl Fn(&Event) -> bool) -> Result<Events, SourceError> {
    let mut frames = FrameReader::new(file)?;
    let header = read_header(&mut frames)?;
    let mut events = Vec::new();
    let read = read_events(&mut frames, wanted, &mut events);
    if events.len() > MAX_EVENTS {
        return Err(malformed(frames.offset, "more mappings come before than any program makes"));
    }
    match read {
        Ok(()) | Err(SourceError::Malformed(_) | SourceError::Truncated(_)) => Ok(Events { header, events }),
        Err(error) => Err(error),
    }
}

fn read_events<R: Read>(
    frames: &mut FrameReader<R>,
    wanted: impl Fn(&Event) -> bool,
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
            if let MarkKind::Event(event) = mark.what
                && wanted(&event)
            {
                events.push((executions + u64::from(mark.span), event));
            }
        }
        if events.len() > MAX_EVENTS {
            return Ok(());
        }
        executions += u64::from(chunk.head.spans);
    }
}
