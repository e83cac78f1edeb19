//! Determines which processes can run, by what they wait for.
//!
//! - A process that waits for a child (`wait4`) continues when the child's streams have ended: a parent that only waits
//!   does not delay others.
//! - A child begins when its parent has forked it.
//! - A process image begins when the previous one of the same process has ended.
//!
//! Each rule applies only if the awaited stream is among those that take turns, by the process ids of their headers. If
//! all streams wait for each other, as those of unrelated recordings may seem to, the next one continues.

use super::{Interleave, Stream};
use crate::{Event, Origin, Source};

impl<S: Source> Interleave<S> {
    /// The next stream that has not ended and waits for no other.
    pub(super) fn next_turn(&self) -> Option<usize> {
        let order = (1..=self.streams.len()).map(|step| (self.turn + step) % self.streams.len());
        let mut alive = order.filter(|&next| !self.streams[next].ended);
        let first = alive.clone().next()?;
        if self.turns.calls.is_empty() {
            return Some(first);
        }
        Some(alive.find(|&next| !self.waits(next)).unwrap_or(first))
    }

    fn waits(&self, stream: usize) -> bool {
        let waiting = &self.streams[stream];
        let header = waiting.source.header();
        let alive = |pid: u32, streams: &[Stream<S>]| {
            let is_it = |other: &Stream<S>| !other.ended && other.source.header().pid == pid;
            pid != 0 && streams.iter().any(is_it)
        };
        let (before, others) = self.streams.split_at(stream);
        let others = &others[1..];
        match (&waiting.held, header.origin) {
            (Some((_, event @ Event::Syscall { number: Event::WAIT4, .. })), _) => event
                .reaped()
                .is_some_and(|child| child != header.pid && (alive(child, before) || alive(child, others))),
            (None, Origin::Fork) if !waiting.begun && !self.forked.contains(&header.pid) => {
                header.parent != header.pid && (alive(header.parent, before) || alive(header.parent, others))
            }
            (None, Origin::Exec) if !waiting.begun => alive(header.pid, before),
            _ => false,
        }
    }
}
