//! Walks that wait for the caches, and lines that pass a first level.

use crate::moment::{CodePosition, Moment};
use pagewalk_cache::PassedLine;

/// A line that passed the first level at a moment of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PassedAt {
    pub moment: Moment,
    pub line: PassedLine,
}

/// The reference that caused a walk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WalkCause {
    pub class: usize,
    pub page: u32,
    pub span: usize,
    pub at: CodePosition,
    /// Executed until then.
    pub instructions: u64,
}

/// Walks whose reads wait for the references before them.
#[derive(Clone, Debug, Default)]
pub(crate) struct WaitingWalks {
    walks: Vec<(Moment, Option<WalkCause>)>,
    /// Where the entries of each end.
    ends: Vec<usize>,
    entries: Vec<u64>,
}

impl WaitingWalks {
    /// An empty list with room for as many as `others` holds.
    pub fn like(others: &WaitingWalks) -> WaitingWalks {
        WaitingWalks {
            walks: Vec::with_capacity(others.walks.len()),
            ends: Vec::with_capacity(others.ends.len()),
            entries: Vec::with_capacity(others.entries.len()),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Adds a walk: `list` appends the entries that it reads.
    pub fn add(&mut self, list: impl FnOnce(&mut Vec<u64>) -> u32) -> u32 {
        let references = list(&mut self.entries);
        self.ends.push(self.entries.len());
        references
    }

    /// Notes when the walks came that were added since the last call, and the cause of the first.
    pub fn note(&mut self, moment: Moment, mut cause: Option<WalkCause>) {
        while self.walks.len() < self.ends.len() {
            self.walks.push((moment, cause.take()));
        }
    }

    /// Whether it is noted of each when it came.
    pub fn are_noted(&self) -> bool {
        self.walks.len() == self.ends.len()
    }

    /// What a walk is charged to; none if it was ahead of need.
    pub fn cause(&self, walk: usize) -> Option<WalkCause> {
        self.walks[walk].1
    }

    /// When a walk came, if there are so many.
    pub fn moment(&self, walk: usize) -> Option<Moment> {
        self.walks.get(walk).map(|&(moment, _)| moment)
    }

    /// The entries that all walks read.
    pub fn all_entries(&self) -> &[u64] {
        &self.entries
    }

    /// Where the entries of a walk begin among all; `walk`: at most the number of walks.
    pub fn first_entry(&self, walk: usize) -> usize {
        walk.checked_sub(1).map_or(0, |before| self.ends[before])
    }

    /// The entries that a walk reads.
    pub fn entries(&self, walk: usize) -> &[u64] {
        &self.entries[self.first_entry(walk)..self.ends[walk]]
    }
}
