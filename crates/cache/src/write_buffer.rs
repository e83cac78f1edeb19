//! The buffer behind a write-through cache: stores wait there for the next level.
//!
//! One entry at a time drains, in order, and each takes the same cycles. An entry that drains still fills its place. A
//! store that finds no place waits for the oldest entry. No two stores share an entry.

use std::collections::VecDeque;

/// The buffer of a write-through cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteBufferSpec {
    /// How many stores have a place.
    pub entries: u32,
    /// Cycles in which an entry drains.
    pub drain: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct WriteBuffer {
    spec: WriteBufferSpec,
    /// When each entry will have drained, oldest first.
    drained: VecDeque<u64>,
}

impl WriteBuffer {
    pub fn new(spec: WriteBufferSpec) -> WriteBuffer {
        WriteBuffer { spec, drained: VecDeque::with_capacity(spec.entries as usize) }
    }

    /// A store arrives at `now`, which never falls; returns the cycles that it waits for a place.
    pub fn store(&mut self, now: u64) -> u64 {
        while self.drained.front().is_some_and(|&drained| drained <= now) {
            self.drained.pop_front();
        }
        let is_full = self.drained.len() == self.spec.entries as usize;
        let start = if is_full { self.drained.pop_front().unwrap_or(now) } else { now };
        let idle = self.drained.back().copied().unwrap_or(start);
        self.drained.push_back(idle.max(start).saturating_add(self.spec.drain));
        start - now
    }
}
