//! Ways as three trees of pseudo-LRU bits, one behind the other: for 3 · 2^k ways, which one tree cannot have.

use super::tree_plru::TreePlru;
use crate::{Geometry, ReplacementError};

/// How many trees.
pub(crate) const TREES: usize = 3;

/// Three trees for each set.
#[derive(Clone, Debug)]
pub(crate) struct ThreeTrees {
    /// Ways of a tree.
    leaves: usize,
    /// The trees of a set are three of its sets.
    trees: TreePlru,
}

/// Whether so many ways are three trees; the policy's name is for the message.
pub(crate) fn serves(policy: &'static str, ways: usize) -> Result<(), ReplacementError> {
    let leaves = ways / TREES;
    let fits = leaves.is_power_of_two() && leaves * TREES == ways;
    if fits { Ok(()) } else { Err(ReplacementError::ThreeTrees { policy, ways }) }
}

impl ThreeTrees {
    /// All bits point to the lower half. The ways are those that [`serves`] lets pass.
    pub fn new(geometry: Geometry) -> ThreeTrees {
        let leaves = geometry.ways() / TREES;
        ThreeTrees { leaves, trees: TreePlru::trees(geometry.sets() * TREES, leaves) }
    }

    /// The tree of a way.
    #[inline(always)]
    pub fn tree_of(&self, way: usize) -> usize {
        way / self.leaves
    }

    /// Makes the bits on this way's path point away from it.
    #[inline(always)]
    pub fn used(&mut self, set: usize, way: usize) {
        self.trees.used(set * TREES + way / self.leaves, way % self.leaves);
    }

    /// The way that the bits of this tree lead to.
    pub fn pointed_to(&self, set: usize, tree: usize) -> usize {
        tree * self.leaves + self.trees.pointed_to(set * TREES + tree)
    }
}
