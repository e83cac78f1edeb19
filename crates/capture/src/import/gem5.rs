//! gem5's packet traces, as its communication monitors and memory probes write them.
//!
//! ```text
//! "gem5", then messages of protobuf, each behind its length as a varint: one header, then packets
//! ```
//!
//! Source: `src/proto/packet.proto`, `src/proto/protoio.cc` and `util/decode_packet_trace.py` of gem5. Packets have the
//! number of their command, and new commands moved those behind them. Only the first five have kept their numbers in
//! all versions with such traces: requests to read and to write are two of them, and the only ones that
//! gem5's own script names.

use super::assembler::{Assembler, Reference};
use super::container::packing_error;
use super::notes::{NoteKind, Notes};
use super::{Bytes, Import, Importer, Opener};
use pagewalk_trace::{Item, Origin, Source, SourceError, StreamHeader};
use pagewalk_units::{Kind, Size};
use prost::Message;
use std::io::{BufRead, Read};

/// The mark of all files of gem5's protobuf library.
const MARK: &[u8] = b"gem5";
/// `ReadReq` and `WriteReq` (`src/mem/packet.hh`).
const READ: u32 = 1;
const WRITE: u32 = 4;
/// The flag of an instruction fetch (`src/mem/request.hh`).
const FETCH: u32 = 0x100;
/// Most bytes of a message: a header names every requestor of a system, a packet has at most 80 bytes.
const MESSAGE_BYTES_MAX: u64 = 1 << 20;
/// Most bytes of an instruction.
const FETCH_BYTES_MAX: u32 = 255;

/// Kinds of packets to note.
const OTHER_COMMAND: usize = 0;
const EMPTY: usize = 1;
const ODD_SIZE: usize = 2;
const SORTS: &[NoteKind] = &[
    NoteKind {
        what: "of a command other than ReadReq and WriteReq",
        why: "left out, as numbers of other commands differ between gem5's versions; caches send such packets, so \
              capture between the processor and its first cache",
    },
    NoteKind { what: "of no bytes", why: "left out" },
    NoteKind { what: "of a size that records do not know", why: "the next smaller one is taken" },
];
const FACTS: &[&str] = &[
    "gem5's packets have physical addresses, unless its configuration makes them equal to virtual ones: pages are \
     pages of these addresses",
    "gem5's packets have no mappings or system calls; their requestors, times and program counters are passed over: \
     all is one thread's",
];

/// The format, for the registry.
pub(super) const FORMAT: Importer = Importer {
    name: "gem5",
    about: "packets that gem5's monitors and probes write in protobuf",
    recognises: |head| head.starts_with(MARK),
    open: Opener::One(|file| {
        let source = PacketSource::new(file)?;
        Ok(Import { notes: source.notes.clone(), source: Box::new(source) })
    }),
};

/// The first message. Its fourth field tells the library's kinds of traces apart: a packet trace has messages there,
/// the others a number.
#[derive(Clone, PartialEq, Message)]
struct Header {
    #[prost(string, optional, tag = "1")]
    object: Option<String>,
    #[prost(uint64, optional, tag = "3")]
    tick_frequency: Option<u64>,
}

/// The first message of another kind of trace.
#[derive(Clone, PartialEq, Message)]
struct OtherHeader {
    /// The window of instructions' dependencies in an elastic trace; whether a trace of instructions has references.
    #[prost(uint64, optional, tag = "4")]
    number: Option<u64>,
}

/// A packet, without what is passed over.
#[derive(Clone, PartialEq, Message)]
struct Packet {
    #[prost(uint64, optional, tag = "1")]
    tick: Option<u64>,
    #[prost(uint32, optional, tag = "2")]
    command: Option<u32>,
    #[prost(uint64, optional, tag = "3")]
    address: Option<u64>,
    #[prost(uint32, optional, tag = "4")]
    bytes: Option<u32>,
    #[prost(uint32, optional, tag = "5")]
    flags: Option<u32>,
}

/// Reads packets.
struct PacketSource {
    file: Bytes,
    header: StreamHeader,
    /// The message read last.
    message: Vec<u8>,
    /// A reference that found no room.
    held: Option<Reference>,
    assembler: Assembler,
    notes: Notes,
    /// The error that ends the stream, after everything before it.
    error: Option<SourceError>,
    ended: bool,
}

impl PacketSource {
    /// A source for the packets in an unpacked file, whose header is read.
    fn new(file: Bytes) -> Result<PacketSource, SourceError> {
        let mut source = PacketSource {
            file,
            header: StreamHeader { engine: "gem5".to_owned(), ..StreamHeader::unknown(Origin::Import) },
            message: Vec::new(),
            held: None,
            assembler: Assembler::of("packet"),
            notes: Notes::new("packet", SORTS, FACTS),
            error: None,
            ended: false,
        };
        source.read_header()?;
        Ok(source)
    }

    fn read_header(&mut self) -> Result<(), SourceError> {
        read(&mut self.file, MARK.len() as u64, &mut self.message, "its mark")?;
        if self.message != MARK {
            return Err(SourceError::Malformed("the file does not begin with `gem5`".to_owned()));
        }
        if !self.read_message("the header")? {
            return Err(SourceError::Truncated("the file ends before its header".to_owned()));
        }
        if let Ok(OtherHeader { number: Some(number) }) = OtherHeader::decode(&self.message[..]) {
            let what = match number {
                0 | 1 => "instructions (`src/proto/inst.proto`)",
                _ => "instructions' dependencies, an elastic trace (`src/proto/inst_dep_record.proto`)",
            };
            return Err(SourceError::Malformed(format!(
                "the file is gem5's trace of {what}; traces of packets (`src/proto/packet.proto`) are read"
            )));
        }
        match Header::decode(&self.message[..]) {
            Ok(Header { object: Some(_), tick_frequency: Some(_) }) => Ok(()),
            Ok(_) => Err(SourceError::Malformed(
                "the header has no object or no tick frequency, which a packet trace's has".to_owned(),
            )),
            Err(error) => Err(SourceError::Malformed(format!("the header is damaged ({error})"))),
        }
    }

    /// Reads the next message; false at the end of the file.
    fn read_message(&mut self, place: &str) -> Result<bool, SourceError> {
        let Some(bytes) = self.read_length(place)? else { return Ok(false) };
        if bytes > MESSAGE_BYTES_MAX {
            return Err(SourceError::Malformed(format!(
                "{place} is said to have {bytes} bytes, more than {MESSAGE_BYTES_MAX}"
            )));
        }
        read(&mut self.file, bytes, &mut self.message, place)?;
        Ok(true)
    }

    /// The length of the next message; `None` at the end of the file.
    fn read_length(&mut self, place: &str) -> Result<Option<u64>, SourceError> {
        let mut length = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let bytes = self.file.fill_buf().map_err(|error| packing_error(error, place))?;
            let Some(&byte) = bytes.first() else {
                return match shift {
                    0 => Ok(None),
                    _ => Err(SourceError::Truncated(format!("the file ends in the middle of {place}"))),
                };
            };
            self.file.consume(1);
            length |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(Some(length));
            }
        }
        Err(SourceError::Malformed(format!("{place} has a length of more than 64 bits")))
    }

    /// Reads packets until there is a batch or the file ends.
    fn fill(&mut self) -> Result<(), SourceError> {
        while !self.assembler.is_full() {
            if let Some(reference) = self.held.take()
                && !self.add(reference)?
            {
                self.held = Some(reference);
                return Ok(());
            }
            if !self.read_message(&self.assembler.place())? {
                self.ended = true;
                return Ok(());
            }
            self.held = self.reference()?;
            if self.held.is_none() {
                self.assembler.done += 1;
            }
        }
        Ok(())
    }

    /// Adds a packet's reference; false if the batch must be yielded first.
    fn add(&mut self, reference: Reference) -> Result<bool, SourceError> {
        let is_added = self.assembler.take(reference)?;
        // What follows a fetch may be of any instruction.
        self.assembler.close_block()?;
        self.assembler.done += u64::from(is_added);
        Ok(is_added)
    }

    /// The reference of the packet read last, if it is one.
    fn reference(&self) -> Result<Option<Reference>, SourceError> {
        let packet = Packet::decode(&self.message[..]);
        let packet = packet.map_err(|error| self.assembler.malformed(&format!("is damaged ({error})")))?;
        let (Some(_), Some(command), Some(address), Some(bytes)) =
            (packet.tick, packet.command, packet.address, packet.bytes)
        else {
            return Err(self.assembler.malformed("has no tick, command, address or size, which all have"));
        };
        let kind = match command {
            READ if packet.flags.unwrap_or(0) & FETCH != 0 => Kind::Fetch,
            READ => Kind::Load,
            WRITE => Kind::Store,
            _ => {
                self.note(OTHER_COMMAND, &format!("command {command}"));
                return Ok(None);
            }
        };
        let known = match kind {
            Kind::Fetch => bytes.min(FETCH_BYTES_MAX),
            _ => Size::at_most(bytes).map_or(0, Size::bytes),
        };
        match known {
            0 => self.note(EMPTY, ""),
            known if known < bytes => self.note(ODD_SIZE, &format!("{bytes} bytes")),
            _ => {}
        }
        Ok((known > 0).then_some(Reference { kind, address, bytes: known }))
    }

    fn note(&self, sort: usize, text: &str) {
        self.notes.add(sort, self.assembler.done + 1, text.as_bytes());
    }
}

/// Fills `into` with the next bytes of the file. Only bytes that are there take memory.
fn read(file: &mut Bytes, bytes: u64, into: &mut Vec<u8>, place: &str) -> Result<(), SourceError> {
    into.clear();
    let done = file.take(bytes).read_to_end(into).map_err(|error| packing_error(error, place))?;
    match done as u64 == bytes {
        true => Ok(()),
        false => Err(SourceError::Truncated(format!("the file ends in the middle of {place}"))),
    }
}

impl Source for PacketSource {
    fn header(&self) -> &StreamHeader {
        &self.header
    }

    fn next_item(&mut self) -> Result<Option<Item<'_>>, SourceError> {
        self.assembler.retire();
        if !self.ended && self.error.is_none() {
            self.error = self.fill().err();
        }
        self.assembler.item(&mut self.error)
    }
}

#[cfg(test)]
mod tests;
