//! Replacement policies by name.
//!
//! A new policy is a file of its own, and here a name and a line in each match.

use crate::bit_plru::BitPlru;
use crate::fifo::Fifo;
use crate::lru::Lru;
use crate::random::Random;
use crate::tree_plru::TreePlru;
use crate::{Array, Geometry, ReplacementPolicy};
use std::fmt;

/// Which key leaves a full set. Each policy's file says exactly what it does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Replacement {
    /// The least recently used.
    #[default]
    Lru,
    /// The one that a tree of bits leads to; the number of ways must be a power of two.
    TreePlru,
    /// The lowest way that was not used since its set's bits were cleared.
    BitPlru,
    /// The one filled longest ago.
    Fifo,
    /// Any.
    Random {
        /// Where the array's own generator begins.
        seed: u64,
    },
}

impl Replacement {
    /// The names, as machine files have them.
    pub const NAMES: [&str; 5] = ["lru", "tree-plru", "bit-plru", "fifo", "random"];

    /// The policy of this name. Only `random` looks at the seed.
    pub fn from_name(name: &str, seed: u64) -> Option<Replacement> {
        match name {
            "lru" => Some(Replacement::Lru),
            "tree-plru" => Some(Replacement::TreePlru),
            "bit-plru" => Some(Replacement::BitPlru),
            "fifo" => Some(Replacement::Fifo),
            "random" => Some(Replacement::Random { seed }),
            _ => None,
        }
    }

    /// One of [`Replacement::NAMES`].
    pub fn name(self) -> &'static str {
        match self {
            Replacement::Lru => "lru",
            Replacement::TreePlru => "tree-plru",
            Replacement::BitPlru => "bit-plru",
            Replacement::Fifo => "fifo",
            Replacement::Random { .. } => "random",
        }
    }
}

/// Why a policy cannot serve a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplacementError {
    /// `tree-plru` with ways that are not the leaves of a full binary tree.
    TreeWays {
        /// Ways asked for.
        ways: usize,
    },
}

impl fmt::Display for ReplacementError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplacementError::TreeWays { ways } => {
                write!(f, "tree-plru needs a power-of-two number of ways, not {ways}")
            }
        }
    }
}

impl std::error::Error for ReplacementError {}

/// Any of the policies, chosen at run time.
// The tag is a byte of its own: decoding one hidden in a vector's capacity costs every hit some instructions.
#[derive(Clone, Debug)]
#[repr(u8)]
pub enum AnyPolicy {
    /// [`Replacement::Lru`].
    Lru(Lru),
    /// [`Replacement::TreePlru`].
    TreePlru(TreePlru),
    /// [`Replacement::BitPlru`].
    BitPlru(BitPlru),
    /// [`Replacement::Fifo`].
    Fifo(Fifo),
    /// [`Replacement::Random`].
    Random(Random),
}

/// An array whose policy is chosen at run time: one predictable branch for each hit.
///
/// ```
/// use pagewalk_setassoc::{Geometry, Replacement, SetArray, SetIndex};
///
/// let geometry = Geometry::new(1536, Some(12))?;
/// let hash = SetIndex::from_name("xor-7").expect("a name");
/// let mut array = SetArray::new(geometry, Replacement::Fifo)?.indexed_by(hash);
/// assert!(!array.touch(5, 5));
/// assert_eq!(array.fill(5, 5), None);
/// assert!(array.touch(5, 5));
///
/// let error = SetArray::new(geometry, Replacement::TreePlru).unwrap_err();
/// assert_eq!(error.to_string(), "tree-plru needs a power-of-two number of ways, not 12");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type SetArray = Array<AnyPolicy>;

impl SetArray {
    /// An empty array whose sets are chosen by the low bits; see [`Array::indexed_by`].
    ///
    /// # Errors
    /// If the policy cannot serve the shape.
    pub fn new(geometry: Geometry, replacement: Replacement) -> Result<SetArray, ReplacementError> {
        let policy = match replacement {
            Replacement::Lru => AnyPolicy::Lru(Lru::new(geometry)),
            Replacement::TreePlru => AnyPolicy::TreePlru(TreePlru::new(geometry)?),
            Replacement::BitPlru => AnyPolicy::BitPlru(BitPlru::new(geometry)),
            Replacement::Fifo => AnyPolicy::Fifo(Fifo::new(geometry)),
            Replacement::Random { seed } => AnyPolicy::Random(Random::new(geometry, seed)),
        };
        Ok(Array::with_policy(geometry, policy))
    }
}

/// Calls the same method of whichever policy it is.
macro_rules! whichever {
    ($policy:expr, $call:ident($($argument:expr),*)) => {
        match $policy {
            AnyPolicy::Lru(policy) => policy.$call($($argument),*),
            AnyPolicy::TreePlru(policy) => policy.$call($($argument),*),
            AnyPolicy::BitPlru(policy) => policy.$call($($argument),*),
            AnyPolicy::Fifo(policy) => policy.$call($($argument),*),
            AnyPolicy::Random(policy) => policy.$call($($argument),*),
        }
    };
}

impl ReplacementPolicy for AnyPolicy {
    #[inline(always)]
    fn hit(&mut self, set: usize, way: usize) {
        whichever!(self, hit(set, way));
    }

    #[inline]
    fn victim(&mut self, set: usize) -> usize {
        whichever!(self, victim(set))
    }

    #[inline]
    fn fill(&mut self, set: usize, way: usize) {
        whichever!(self, fill(set, way));
    }

    fn remove(&mut self, set: usize, way: usize) {
        whichever!(self, remove(set, way));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for name in Replacement::NAMES {
            assert_eq!(Replacement::from_name(name, 7).unwrap().name(), name);
        }
        assert_eq!(Replacement::from_name("random", 7), Some(Replacement::Random { seed: 7 }));
        assert_eq!(Replacement::from_name("LRU", 0), None);
    }
}
