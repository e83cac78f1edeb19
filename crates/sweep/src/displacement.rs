//! Streams with their objects at planned addresses.

use pagewalk_layout::rebase::Mover;
use pagewalk_trace::{Analysis, Batch, Event};
use pagewalk_units::{RefIndex, SpaceId};

/// An analysis of streams with their objects at planned addresses.
pub struct MovedAnalysis<A> {
    /// By process; without any, nothing moves.
    movers: Vec<Mover>,
    /// The process that runs.
    runs: usize,
    inner: A,
}

impl<A> MovedAnalysis<A> {
    /// Passes each process's stream through its mover to `inner`; unchanged without movers.
    pub fn new(movers: Vec<Mover>, inner: A) -> MovedAnalysis<A> {
        MovedAnalysis { movers, runs: 0, inner }
    }

    /// The inner analysis.
    pub fn into_inner(self) -> A {
        self.inner
    }
}

impl<A: Analysis> Analysis for MovedAnalysis<A> {
    fn is_done(&self) -> bool {
        self.inner.is_done()
    }

    fn on_batch(&mut self, batch: &Batch<'_>) {
        match self.movers.get_mut(self.runs) {
            Some(mover) => self.inner.on_batch(&mover.batch(batch)),
            None => self.inner.on_batch(batch),
        }
    }

    fn on_event(&mut self, at: RefIndex, event: &Event) {
        match self.movers.get_mut(self.runs) {
            Some(mover) => mover.event(event, |event| self.inner.on_event(at, &event)),
            None => self.inner.on_event(at, event),
        }
    }

    fn on_turn(&mut self, space: SpaceId) {
        self.runs = space.0 as usize;
        self.inner.on_turn(space);
    }
}
