//! Set-associative arrays of keys.
//!
//! Design constraints: no allocation after construction; a key is a plain `u64` that the caller makes unique (page
//! number with size, page-table level with prefix); the number that chooses the set is separate from the key, so that
//! each user decides which bits choose the set.
//!
//! Each replacement policy is one file in `replacement/`. [`Array`] takes any of them at compile time (like
//! [`LruArray`]), [`SetArray`] at run time.

mod array;
mod directory;
mod geometry;
mod organisation;
mod prefetch;
mod relevant_hits;
mod replacement;
mod set_index;
mod skewed;
mod way;

pub use array::{Array, ReplacementPolicy};
pub use geometry::{Geometry, GeometryError};
pub use organisation::{Entry, Organisation, OrganisationError, Shape, SizeIndexedArray, TlbArray};
pub use prefetch::prefetch;
pub use relevant_hits::{RelevantHits, UseOrder};
pub use replacement::{AnyPolicy, LruArray, NamedPolicy, Replacement, ReplacementError, SetArray};
pub use set_index::{SetIndex, XorBits};
