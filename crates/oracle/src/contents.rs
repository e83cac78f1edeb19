//! The contents of an array, for every organisation. An entry is a number, log2 of the size that it maps, and a key.

use crate::{ReplacementModel, Skewed};

/// The contents of an array, by organisation.
#[derive(Clone, Debug)]
pub enum ArrayContents {
    /// Set-associative: the number chooses the set.
    Sets(ReplacementModel),
    /// Skewed-associative: number and size choose the place in each way.
    Skewed(Skewed),
}

impl ArrayContents {
    pub(crate) fn contains(&self, (number, shift, key): (u64, u32, u64)) -> bool {
        match self {
            ArrayContents::Sets(held) => held.contains(number, key),
            ArrayContents::Skewed(held) => held.contains(number, shift, key),
        }
    }

    pub(crate) fn touch(&mut self, (number, shift, key): (u64, u32, u64)) -> bool {
        match self {
            ArrayContents::Sets(held) => held.touch(number, key),
            ArrayContents::Skewed(held) => held.touch(number, shift, key),
        }
    }

    pub(crate) fn fill(&mut self, (number, shift, key): (u64, u32, u64)) -> Option<u64> {
        match self {
            ArrayContents::Sets(held) => held.fill(number, key),
            ArrayContents::Skewed(held) => held.fill(number, shift, key),
        }
    }

    pub(crate) fn remove(&mut self, (number, shift, key): (u64, u32, u64)) -> bool {
        match self {
            ArrayContents::Sets(held) => held.remove(number, key),
            ArrayContents::Skewed(held) => held.remove(number, shift, key),
        }
    }

    pub(crate) fn remove_where(&mut self, gone: impl Fn(u64) -> bool) {
        match self {
            ArrayContents::Sets(held) => held.remove_where(gone),
            ArrayContents::Skewed(held) => held.remove_where(gone),
        }
    }

    /// The keys held.
    pub fn keys(&self) -> Vec<u64> {
        match self {
            ArrayContents::Sets(held) => held.keys(),
            ArrayContents::Skewed(held) => held.keys(),
        }
    }
}
