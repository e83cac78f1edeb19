//! The data side of designs that count every operation: ranges, coalescing, ways that are switched off.
//!
//! A machine file with `side = "data"` describes what data references alone meet. Its model, [`DataSide`], follows each
//! of them through the arrays in their order, and counts what every array is asked and given, by the ways that are on,
//! so that energy can be priced:
//!
//! ```text
//!   level 1   page TLBs (ways may be off: Lite)   range TLB         probed together, by every reference
//!   level 2   page TLBs, some coalescing          range TLB         probed together, by misses of level 1
//!   walk      page-walk caches, page table        range table       the latter in the background, for no time
//! ```
//!
//! Source: Karakostas, "Improving the Performance and Energy-efficiency of Virtual Memory: A Range-based Approach", PhD
//! thesis, UPC 2016, chapters 4 and 5. What it leaves open is named in `docs/explanation/ranges-and-energy.md`.

mod anchored;
mod coalesced;
mod counts;
mod hierarchy;
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
pub use tag::EntryTag;
