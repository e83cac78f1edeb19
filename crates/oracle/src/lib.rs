//! Slow and simple reference models. A dev-dependency only; shares no code with what it checks.
//!
//! [`Machine`] translates one reference at a time, with lists in order of use. [`Kernel`] keeps one entry per mapped
//! page, and [`promotion`] one per page for each policy that builds superpages. [`miss_policies`] and [`prefetch`]
//! search all entries of a TLB, and [`migration`] gets them as a list. [`Frames`] and [`EndlessMemory`] keep one entry
//! per frame of memory. [`ReplacementModel`] and [`LruSets`]
//! are single arrays; [`History`] stores every reference.

pub mod backing;
mod column;
mod contents;
pub mod data_side;
mod frames;
mod kernel;
mod machine;
mod memory;
pub mod migration;
pub mod miss_policies;
mod nested;
mod placement;
pub mod prefetch;
pub mod promotion;
mod replacement;
pub mod reservations;
pub mod sharing;
mod skewed;
pub mod software;
mod stack;
mod table;
mod untouched;

pub use column::Column;
pub use contents::ArrayContents;
pub use frames::{Frames, ReservationList, ReservationSlots};
pub use kernel::{Kernel, Paging};
pub use machine::{Array, Cache, Content, Counts, Globals, Machine, Prefetch};
pub use memory::{Memories, Memory};
pub use nested::Nested;
pub use placement::{EndlessMemory, PlacementRule};
pub use replacement::ReplacementModel;
pub use skewed::Skewed;
pub use stack::{History, LruSets};
pub use table::{Hashed, Table};
pub use untouched::{Life, most_at_once};

/// Random cases of a test: `usual`, unless `PAGEWALK_CASES` makes it a long run.
pub fn cases(usual: u32) -> u32 {
    std::env::var("PAGEWALK_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}
