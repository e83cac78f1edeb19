//! Data sides, which count every operation: ranges, coalescing, ways switched off.
//!
//! A machine file with `side = "data"` describes the hardware for data references only. Its model, [`DataSide`], sends
//! each of them through the arrays in order, and counts every search and write by the number of ways on, to price
//! energy:
//!
//! ```text
//!   level 1   page TLBs (ways may be off: Lite)   range TLB         probed together, by every reference
//!   level 2   page TLBs, some coalescing          range TLB         probed together, by misses of level 1
//!   walk      page-walk caches, page table        range table       the latter in the background, for no time
//! ```
//!
//! Source: Karakostas, "Improving the Performance and Energy-efficiency of Virtual Memory: A Range-based Approach", PhD
//! thesis, UPC 2016, chapters 4 and 5. `docs/explanation/ranges-and-energy.md` lists what it leaves open.

mod anchored;
mod coalesced;
mod counts;
mod hierarchy;
mod last_level;
mod lite;
mod memory;
mod predictor;
mod range;
mod range_table;
mod second;
mod spec;
mod tag;
mod way_array;

pub use counts::{AnchorUse, ArrayUse, DataSideCounts, Operations, RangeUse};
pub use hierarchy::DataSide;
pub use memory::SideMemoryView;
pub use range::Range;
pub use range_table::{RangeTable, RangeWalk};
pub use spec::{
    Coalesce, CollapseSpec, DataSideSpec, LiteHistory, LiteSpec, RangeBacking, RangeFill, RangeTlbSpec,
};
pub use tag::{EntryMoves, EntryTag};
