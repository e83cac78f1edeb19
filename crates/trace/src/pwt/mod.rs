//! The `.pwt` file: a stream of one process, compressed, in frames that stand alone.
//!
//! Design constraints: a damaged or truncated file is readable up to its last complete chunk, and the error says what
//! is missing; malformed bytes never cause a panic, nor allocations beyond the limits in `layout.rs`; memory does not
//! grow with a trace's length; decoding a reference costs less than simulating it. `docs/reference/trace-format.md`
//! specifies the bytes.
//!
//! - [`Writer`] is an [`Analysis`](crate::Analysis), [`Reader`] a [`Source`](crate::Source).
//! - [`info`] summarises a file, from its index alone if that is intact; [`events`] reads only its events.
//!
//! Inside: `layout` (frames, limits), `blocks` (dictionary frames), `table` (predictors shared by encoder and decoder),
//! `vector` (their arithmetic), `encoder` and `decoder` (columns), `encoders` (threads that encode), `chunk` (columns
//! as a frame), `file` (writes frames) and `sink` (on which thread), `index`, `info` and `events`.

mod blocks;
mod bytes;
mod chunk;
mod decoder;
mod encoder;
mod encoders;
mod events;
mod file;
mod index;
mod info;
mod layout;
mod reader;
mod sink;
mod table;
mod vector;
mod writer;

pub use events::{Events, events};
pub use file::Summary;
pub use info::{Info, info};
pub use layout::{MAGIC_BYTES, VERSION, begins};
pub use reader::Reader;
pub use writer::Writer;

/// Reads `bytes` as a trace file in every way, for fuzzing: it must return for any input.
pub fn fuzz_one(bytes: &[u8]) {
    if let Ok(mut reader) = Reader::new(bytes) {
        while let Ok(Some(_)) = crate::Source::next_item(&mut reader) {}
    }
    // Most inputs are no trace; only returning matters.
    let _ = info(std::io::Cursor::new(bytes));
    let _ = events(bytes, |_| true);
}
