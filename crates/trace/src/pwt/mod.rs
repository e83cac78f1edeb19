//! The `.pwt` file: a stream of one process, compressed, in frames that stand alone.
//!
//! Design constraints: a damaged or cut file reads up to its last whole chunk and says what is missing;
//! malformed bytes never panic and never make the reader allocate more than the limits in `layout.rs`;
//! memory does not grow with the length of a trace; decoding a reference costs less than simulating it.
//! `docs/reference/trace-format.md` states the bytes.
//!
//! - [`Writer`] is an [`Analysis`](crate::Analysis), [`Reader`] a [`Source`](crate::Source).
//! - [`info`] summarises a file, from its index alone where that is whole; [`events`] reads its events alone.
//!
//! Inside: `layout` (frames, limits), `blocks` (dictionary frames), `table` (the predictors both
//! directions share), `vector` (its arithmetic), `encode` and `decode` (columns), `chunk` (columns as one
//! frame), `file` (frames, written) and `sink` (on which thread), `index`, `info` and `events`.

mod blocks;
mod bytes;
mod chunk;
mod decoder;
mod encoder;
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
pub use layout::VERSION;
pub use reader::Reader;
pub use writer::Writer;

/// Reads `bytes` as a trace file in every way there is, for fuzzing: it must return, whatever they are.
pub fn fuzz_one(bytes: &[u8]) {
    if let Ok(mut reader) = Reader::new(bytes) {
        while let Ok(Some(_)) = crate::Source::next_item(&mut reader) {}
    }
    // Most inputs are no trace; only that this returns matters.
    let _ = info(std::io::Cursor::new(bytes));
    let _ = events(bytes, |_| true);
}
