//! The one-pass pipeline: one reference stream through many designs at once, exactly.
//!
//! # How the pass works
//!
//! A *design* is a machine together with a page-size policy. First levels are simulated *from the pages' side*: each
//! page (and each 2 MiB unit) carries one bit per design that says whether the design's first-level array for this
//! class of references holds it, and one recency stamp per class that all designs share. That is exact for
//! least-recently-used arrays: an array sees every reference of the kinds it serves, so its last use of a page that it
//! holds *is* the last reference of those kinds to the page, whatever the array's shape. A hit in all designs costs one
//! comparison and one store for all of them together, two if references are counted by page (`store/front.rs`). Only
//! misses go to the designs one by one (`design/`). Levels below the first, walkers and walk caches are plain arrays,
//! used at those misses only.
//!
//! Replacement that ignores hits (first in, first out; random) fits in as it is. So does pseudo-LRU by trees of bits:
//! each bit points away from the half of its ways that was used last, so the times determine all bits
//! (`design/recency.rs`). A policy that remembers more about hits than the last time (bit pseudo-LRU) sees every
//! reference except repetitions of the last one in its set, which change nothing for it (`store/last_pages.rs`).
//!
//! Machines that differ only below the first level share its simulation (`design/siblings.rs`).
//!
//! No reference is dropped, so counts need no correction, and models may count hits.

mod alternatives;
mod arrangement;
mod attribution;
mod bits;
mod by_traps;
mod caches;
mod census;
mod classes;
mod code_lines;
mod counts;
mod data_side;
mod deal;
mod design;
mod error;
mod fetch;
mod fit;
mod global_pages;
mod groups;
mod host;
mod library;
mod looks;
mod moment;
mod offline;
mod pages;
mod pass;
mod player;
mod profile;
mod ranges;
mod recent_ids;
mod removals;
mod share;
mod simulation;
mod sizes;
mod software_keys;
mod spec;
mod store;
mod structures;
mod system;
mod untouched;
mod visit_stream;
mod watched_tlbs;

pub use alternatives::{AlternativeKind, alternatives, colored_second_level, one_mapping};
pub use arrangement::{Arrangement, Sharing, SharingError};
pub use attribution::{
    HearsWaits, LateBlocks, MappingCounts, NoObserver, Observer, PageWalks, ReferenceWaits, Wait,
    WaitingPage, Waits, Walk,
};
pub use caches::{GrainError, MemoryCounts, check_grain, check_grain_of_caches};
pub use counts::{
    CacheCosts, CacheTotals, ClassCounts, DataSideTotals, DesignCounts, KernelTotals, PrefetchTotals,
    RangeTotals, SoftwareTotals, SpaceCounts,
};
pub use data_side::{DataSideError, DataSides};
pub use error::PassError;
pub use fit::{KernelError, held_orders};
pub use groups::GroupCounts;
pub use host::HostKernel;
pub use library::{Library, LibraryError};
pub use offline::{ChosenBlock, OfflineError, OfflineResult, RejectedBlocks, Replay, check_offline, offline};
pub use pass::Pass;
pub use player::StructureCounts;
pub use profile::{
    Alternative, CodePlace, CostlyMapping, FunctionWalks, HeatMap, Maker, Makers, MovedCode, Profile,
    ProfileResult, ProgramFindings, Reach,
};
pub use simulation::Simulation;
pub use spec::{DesignSpec, TrapSpec};
pub use structures::{Structures, UnknownStructure};
pub use system::System;
