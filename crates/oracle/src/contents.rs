//! What an array holds, however it is organised. Entries are numbers, log2 of what they map, and keys.

use crate::{ReplacementModel, Skewed};

/// Where the entries of an array lie.
#[derive(Clone, Debug)]
pub enum ArrayContents {
    /// In sets by their numbers.
    Sets(ReplacementModel),
    /// In ways by their numbers and sizes.
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
