//! The reference stream: what a program did to its address space, in program order.
//!
//! Design constraints: this crate knows no TLB, engine or policy; it opens no files (readers and writers are generic
//! over `std::io::Read` and `Write`); a record costs 8 bytes; rare events (a mapping, a thread switch) are not in the
//! hot record, yet each has its exact place in the order.
//!
//! - [`Ref`]: one data reference, 8 bytes.
//! - [`Block`] and [`Dictionary`]: the executed code; instruction fetches come from here.
//! - [`Span`]: one execution of one block, with its place in the batch.
//! - [`Item`]: a [`Batch`] of plain references, or one [`Event`].
//! - [`pwt`]: the file format; [`check`]: checks a stream.
//! - [`Source`]: yields items; [`Analysis`]: consumes them. [`Interleave`]: several streams on one processor.
//!   [`BatchParts`]: a batch, yielded in parts. [`ToPages`]: reduces addresses to pages. [`Stretch`]: a part of a
//!   stream, held for several consumers.
//! - [`seconds_worked`]: processor time of the current thread.

mod batch;
mod block;
mod calls;
pub mod check;
mod event;
mod grain;
mod interleave;
mod pages;
mod parts;
pub mod pwt;
mod record;
mod source;
mod stretch;
mod work_time;

pub use batch::{Batch, BatchBuffer, BatchRoom, Item, Span};
pub use block::{Block, BlockEnd, Dictionary, Instruction, Site};
pub use calls::{all_calls, call_number};
pub use event::{Event, FileIdentity, Mapping, MappingKind, Origin, Protection, StreamHeader, ThpDisable};
pub use grain::Grain;
pub use interleave::{Interleave, Turns};
pub use pages::ToPages;
pub use parts::BatchParts;
pub use record::Ref;
pub use source::{Analysis, Backlog, Source, SourceError};
pub use stretch::Stretch;
pub use work_time::seconds_worked;
