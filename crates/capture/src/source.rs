//! Reads one process image's stream from its ring.

use crate::build_id::BuildIds;
use crate::processors;
use crate::ring::{Ring, RingStatus};
use crate::session::Registration;
use crate::wire::{Chunk, DecodeStep, Decoder};
use pagewalk_trace::{Backlog, BatchRoom, Event, Item, MappingKind, Source, SourceError, StreamHeader};
use pagewalk_units::{RefIndex, SpaceId};
use std::sync::Arc;

/// The live stream of one process image.
///
/// Dropping it closes the connection: the program then continues untraced. If an image dies before ending its stream
/// (killed, crashed engine), everything it published is yielded first, then one [`SourceError::Truncated`], then
/// nothing.
pub struct RingSource {
    header: StreamHeader,
    decoder: Decoder,
    chunk: Chunk,
    /// Dropped at the stream's end: the connection must not outlive the reading.
    ring: Option<Ring>,
    end: End,
    exec: Exec,
    /// Whether the last event was a loss.
    after_loss: bool,
    build_ids: Arc<BuildIds>,
    registration: Registration,
}

/// The exec that the image has announced, if it has not returned since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exec {
    No,
    /// Another program, which will stream.
    Followed,
    /// A program that runs untraced.
    Left,
}

/// How the stream ends.
#[derive(Debug)]
enum End {
    /// Not there yet.
    Ahead,
    /// Only this error is left to yield.
    Error(SourceError),
    /// Nothing is left.
    Passed,
}

impl RingSource {
    /// Reads up to the command line, so that the header is complete. If the image dies before sending one, `header` has
    /// no arguments, and the stream yields only the error.
    pub(crate) fn open(
        mut header: StreamHeader,
        mut ring: Ring,
        build_ids: Arc<BuildIds>,
        registration: Registration,
    ) -> RingSource {
        let mut decoder = Decoder::new(SpaceId(registration.number()));
        let mut chunk = Chunk::default();
        let end = match read_identity(&mut decoder, &mut chunk, &mut ring) {
            Ok(arguments) => {
                header.program = arguments.first().cloned().unwrap_or_default();
                header.arguments = arguments;
                End::Ahead
            }
            Err(error) => End::Error(error),
        };
        let ring = matches!(end, End::Ahead).then_some(ring);
        RingSource {
            header,
            decoder,
            chunk,
            ring,
            end,
            exec: Exec::No,
            after_loss: false,
            build_ids,
            registration,
        }
    }

    /// The stream's number in its session: 0 for the first process image, then in order of start.
    pub fn number(&self) -> u32 {
        self.registration.number()
    }

    /// Completes an event with facts known here, and notes it.
    fn take_note(&mut self, event: &mut Event) {
        // The engine announces right before what it does not follow.
        self.exec = match event {
            Event::Exec { .. } if self.after_loss => Exec::Left,
            Event::Exec { .. } => Exec::Followed,
            // The exec returned, so it failed. Other events before more code belong to other threads, which then end.
            Event::Syscall { number: EXECVE | EXECVEAT, .. } => Exec::No,
            _ => self.exec,
        };
        self.after_loss = matches!(event, Event::Lost { .. });
        match event {
            Event::Map(mapping) if matches!(mapping.kind, MappingKind::File | MappingKind::SharedFile) => {
                if let Some(file) = &mut mapping.file {
                    file.build_id = self.build_ids.get(&file.path);
                }
            }
            // In a PID namespace the program uses other ids.
            Event::Fork { child } if self.header.pid == self.registration.pid() => {
                self.registration.expect(*child);
            }
            _ => {}
        }
    }

    /// Ends the stream; true if references must be yielded before `error`.
    fn finish(&mut self, error: Option<SourceError>) -> bool {
        self.ring = None;
        self.end = error.map_or(End::Passed, End::Error);
        self.decoder.flush()
    }

    /// What the end of the engine means for the stream.
    fn ended(&mut self, in_order: bool) -> Option<SourceError> {
        if in_order {
            return None;
        }
        match self.exec {
            Exec::No => {}
            Exec::Followed => {
                self.registration.expect(self.registration.pid());
                return None;
            }
            Exec::Left => return None,
        }
        Some(SourceError::Truncated(format!(
            "process {} {UNFINISHED} (killed, or its engine failed); what it did after its last system call may be \
             missing",
            self.header.pid
        )))
    }
}

/// The error text for a process with an incomplete stream.
pub const UNFINISHED: &str = "ended without finishing its stream";

/// Exec's system call numbers on x86-64.
const EXECVE: u32 = 59;
const EXECVEAT: u32 = 322;

/// The next thing in a stream.
enum Next {
    Batch,
    Event { at: RefIndex, event: Event },
    Identity(Vec<String>),
    Ended { in_order: bool },
}

/// Decodes, and waits for words as needed.
fn next(decoder: &mut Decoder, chunk: &mut Chunk, ring: &mut Ring) -> Result<Next, SourceError> {
    let malformed = |text: String| SourceError::Malformed(text);
    loop {
        match decoder.step(chunk).map_err(|error| malformed(error.to_string()))? {
            DecodeStep::Batch => return Ok(Next::Batch),
            DecodeStep::Event { at, event } => return Ok(Next::Event { at, event }),
            DecodeStep::Identity(arguments) => return Ok(Next::Identity(arguments)),
            DecodeStep::NeedWords => {}
        }
        match ring.next_words(chunk).map_err(|fault| malformed(fault.to_string()))? {
            RingStatus::Words => {}
            RingStatus::Ended { in_order } => return Ok(Next::Ended { in_order }),
        }
    }
}

fn read_identity(
    decoder: &mut Decoder,
    chunk: &mut Chunk,
    ring: &mut Ring,
) -> Result<Vec<String>, SourceError> {
    match next(decoder, chunk, ring)? {
        Next::Identity(arguments) => Ok(arguments),
        Next::Batch | Next::Event { .. } => {
            Err(SourceError::Malformed("the engine's stream does not begin with the command line".to_owned()))
        }
        Next::Ended { .. } => {
            Err(SourceError::Truncated("the process ended before its engine had sent anything".to_owned()))
        }
    }
}

impl Source for RingSource {
    fn header(&self) -> &StreamHeader {
        &self.header
    }

    fn next_item(&mut self) -> Result<Option<Item<'_>>, SourceError> {
        let Some(ring) = &mut self.ring else {
            return match std::mem::replace(&mut self.end, End::Passed) {
                End::Error(error) => Err(error),
                End::Ahead | End::Passed => Ok(None),
            };
        };
        let error = match next(&mut self.decoder, &mut self.chunk, ring) {
            Ok(Next::Batch) => {
                self.exec = Exec::No;
                return Ok(Some(Item::Batch(self.decoder.batch())));
            }
            Ok(Next::Event { at, mut event }) => {
                self.take_note(&mut event);
                return Ok(Some(Item::Event { at, event }));
            }
            Ok(Next::Identity(_)) => {
                Some(SourceError::Malformed("the engine's stream has a second command line".to_owned()))
            }
            Ok(Next::Ended { in_order }) => self.ended(in_order),
            Err(error) => Some(error),
        };
        if self.finish(error) {
            return Ok(Some(Item::Batch(self.decoder.batch())));
        }
        self.next_item()
    }

    fn gives_rooms(&self) -> bool {
        true
    }

    fn give_room(&mut self, for_another: &mut BatchRoom) {
        self.decoder.give_room(for_another);
    }

    // Alternating the decoding pays if processors share a cache; otherwise one decoding thread is faster
    // (`read_ahead.rs`).
    fn is_ready(&self) -> bool {
        !processors::share_a_cache() || self.ring.as_ref().is_none_or(Ring::is_ready)
    }

    fn backlog(&self) -> Option<Arc<dyn Backlog>> {
        let ring = self.ring.as_ref().filter(|_| processors::share_a_cache())?;
        Some(Arc::new(ring.backlog()))
    }
}
