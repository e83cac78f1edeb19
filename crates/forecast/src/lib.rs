//! What huge pages would buy a program, range by range, in seconds and in memory.
//!
//! [`Regions`] watches a stream: for each part of a mapping as large as a huge page, which of it was touched and how
//! often its pages were walked for, with base pages and with huge ones ([`pieces`] names the mappings so that they are
//! found again in another run). [`Prices`] of this host make that nanoseconds; [`choose`] takes what pays best for its
//! memory; [`interval`] says what the run would take, between the runs that were measured.

pub mod choose;
pub mod interval;
pub mod pieces;
pub mod prices;
mod recency;
pub mod regions;

pub use pieces::{Piece, PieceId, PieceKind};
pub use prices::{Overlap, Prices};
pub use regions::{BlockGrowth, Region, RegionReport, Regions};

/// Bytes of the parts that are looked at: those of a huge page of x86-64.
pub const REGION_BYTES: u64 = 2 << 20;
