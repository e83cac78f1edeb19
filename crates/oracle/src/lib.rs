//! Slow reference models, written to be read. A dev-dependency only; shares no code with what it checks.
//!
//! [`Machine`] translates one reference at a time through lists kept in order of use; [`Kernel`] keeps one
//! entry per mapped page, [`promotion`] one per page under each policy that builds superpages, [`miss_policies`] and
//! [`prefetch`] look at all that a TLB holds, [`Frames`] keeps one entry per frame of memory. [`ReplacementModel`] and
//! [`LruSets`] are single arrays, [`History`] remembers every reference.

pub mod backing;
mod contents;
pub mod data_side;
mod frames;
mod kernel;
mod machine;
mod memory;
pub mod miss_policies;
mod nested;
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

pub use contents::ArrayContents;
pub use frames::{Frames, ReservationList, ReservationSlots};
pub use kernel::{Kernel, Paging};
pub use machine::{Array, Cache, Content, Counts, Globals, Machine, Prefetch};
pub use memory::{Memories, Memory};
pub use nested::Nested;
pub use replacement::ReplacementModel;
pub use skewed::Skewed;
pub use stack::{History, LruSets};
pub use table::{Hashed, Table};
pub use untouched::{Life, most_at_once};
