//! Forecasts what a program gains from huge pages, range by range, in seconds and memory.
//!
//! [`Regions`] watches a stream: for each huge-page region of a mapping, it counts touched pages, and walks with base
//! pages and with huge ones ([`pieces`] names the mappings so that another run finds them again). [`HostPrices`] of
//! this host turn that into nanoseconds; [`choose`] picks what pays best for its memory; [`interval`] estimates the run
//! time from measured runs.

pub mod choose;
pub mod interval;
pub mod pieces;
pub mod prices;
mod recency;
pub mod regions;

pub use pieces::{Piece, PieceId, PieceKind};
pub use prices::{HostPrices, Overlap};
pub use regions::{BlockGrowth, Origins, Region, RegionReport, Regions};

/// Bytes of a region: a huge page of x86-64.
pub const REGION_BYTES: u64 = 2 << 20;
