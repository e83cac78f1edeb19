//! Set-associative arrays of keys.
//!
//! Design constraints: no allocation after construction; a key is a plain `u64` that the caller makes
//! unique (page number with its size, page-table level with its prefix); the set index is given apart
//! from the key, so that each user decides which bits choose the set.

mod geometry;
mod lru;

pub use geometry::{Geometry, GeometryError};
pub use lru::LruArray;
