//! Set-associative arrays of keys.
//!
//! Design constraints: no allocation after construction; a key is a plain `u64` that the caller makes
//! unique (page number with its size, page-table level with its prefix); the set index is given apart
//! from the key, so that each user decides which bits choose the set.
//!
//! One file for each replacement policy: [`Lru`], [`TreePlru`], [`BitPlru`], [`Mru3Plru`], [`Lru3Plru`],
//! [`Fifo`], [`Random`], [`NotMru`], [`Qlru`]. [`Array`] takes any of them at compile time, [`SetArray`] at run time.

mod array;
mod bit_plru;
mod directory;
mod draws;
mod fifo;
mod geometry;
mod heeds;
mod lru;
mod lru3_plru;
mod mru3_plru;
mod not_mru;
mod qlru;
mod random;
mod replacement;
mod set_index;
mod three_trees;
mod tree_plru;

pub use array::{Array, ReplacementPolicy};
pub use bit_plru::BitPlru;
pub use draws::Draws;
pub use fifo::Fifo;
pub use geometry::{Geometry, GeometryError};
pub use heeds::{Heeds, LastUse};
pub use lru::{Lru, LruArray};
pub use lru3_plru::Lru3Plru;
pub use mru3_plru::Mru3Plru;
pub use not_mru::NotMru;
pub use qlru::Qlru;
pub use random::Random;
pub use replacement::{AnyPolicy, Policy, Replacement, ReplacementError, SetArray};
pub use set_index::{SetIndex, XorBits};
pub use tree_plru::TreePlru;
