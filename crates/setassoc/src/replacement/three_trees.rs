//! Three trees of pseudo-LRU bits, for 3 · 2^k ways, which one tree cannot serve.

use super::tree_plru::TreePlru;
use crate::{Geometry, ReplacementError};

/// The number of trees.
pub(crate) const TREES: usize = 3;

/// Three trees per set.
#[derive(Clone, Debug)]
pub(crate) struct ThreeTrees {
    /// log2 of the ways of a tree: divisions would cost every hit more than all else.
    leaves_shift: u32,
    /// The trees: each set has three of its sets.
    trees: TreePlru,
}

/// Checks that `ways` form three trees; `policy` is for the message.
pub(crate) fn serves(policy: &'static str, ways: usize) -> Result<(), ReplacementError> {
    let leaves = ways / TREES;
    let fits = leaves.is_power_of_two() && leaves * TREES == ways;
    if fits { Ok(()) } else { Err(ReplacementError::ThreeTrees { policy, ways }) }
}

impl ThreeTrees {
    /// New trees, whose bits point to the lower half. [`serves`] must accept the ways.
    pub fn new(geometry: Geometry) -> ThreeTrees {
        let leaves = geometry.ways() / TREES;
        let trees = TreePlru::trees(geometry.sets() * TREES, leaves);
        ThreeTrees { leaves_shift: leaves.trailing_zeros(), trees }
    }

    /// The tree of a way.
    #[inline(always)]
    pub fn tree_of(&self, way: usize) -> usize {
        way >> self.leaves_shift
    }

    /// Makes the bits on this way's path point away from it.
    #[inline(always)]
    pub fn used(&mut self, set: usize, way: usize) {
        let tree = self.tree_of(way);
        self.trees.used(set * TREES + tree, way - (tree << self.leaves_shift));
    }

    /// The way that a tree points to.
    pub fn pointed_to(&self, set: usize, tree: usize) -> usize {
        (tree << self.leaves_shift) + self.trees.pointed_to(set * TREES + tree)
    }
}
