//! Translation hardware: machine descriptions, and the parts below the first-level TLBs.
//!
//! Design constraints: it knows neither kernel policies nor cycles. A machine comes from TOML ([`MachineSpec`]); its
//! lower TLB levels ([`LowerLevels`]) and its walker ([`Walker`]) work at first-level misses only. `sim`, which sees
//! every reference, simulates first-level arrays.

mod asid;
mod data_side;
mod error;
mod file;
mod hashed;
mod lower_levels;
mod nested;
mod prefetch;
mod radix_format;
mod replacement_source;
mod rules;
mod software;
mod spec;
mod tables;
mod walker;
mod walker_kinds;

pub use asid::{Asid, page_key};
pub use data_side::{
    AnchorUse, ArrayUse, Coalesce, CollapseSpec, DataSide, DataSideCounts, DataSideSpec, EntryMoves,
    EntryTag, LiteHistory, LiteSpec, Operations, Range, RangeBacking, RangeFill, RangeTable, RangeTlbSpec,
    RangeUse, RangeWalk, SideMemoryView,
};
pub use error::MachineError;
pub use file::{requests_caches, with_caches};
pub use hashed::HashedWalker;
pub use lower_levels::{ArrayCounts, LowerEntry, LowerLevels, TranslationSource};
pub use nested::{NestedCounts, NestedWalker};
pub use prefetch::{PrefetchCounts, Prefetcher};
pub use radix_format::{RadixFormat, WalkLevel};
pub use replacement_source::{ReplacementSource, ReplacementSourceError, SourceKind};
pub use software::{
    HandlerSystem, MissClass, NestedMisses, Objective, Placement, Refill, RefillRequest, SoftwareCounts,
    SoftwareMmu, SoftwareSpec, TrapDriven, TrapDrivenError, TuningSpec,
};
pub use spec::{
    CostSpec, Fills, HashedSpec, KindSet, MachineSpec, Match, NestedSpec, NestedTlbSpec, RadixSpec, TlbSpec,
    WalkCacheSpec, WalkerSpec,
};
pub use walker::{RadixWalker, WalkCacheCounts};
pub use walker_kinds::Walker;
