//! Streams with their objects at planned addresses.

use pagewalk_layout::rebase::Mover;
use pagewalk_trace::{Analysis, Batch, Event};
use pagewalk_units::RefIndex;

/// An analysis of a stream with its objects at planned addresses.
pub struct MovedAnalysis<A> {
    mover: Option<Mover>,
    inner: A,
}

impl<A> MovedAnalysis<A> {
    /// Passes the stream through `mover` to `inner`; unchanged without a mover.
    pub fn new(mover: Option<Mover>, inner: A) -> MovedAnalysis<A> {
        MovedAnalysis { mover, inner }
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
        match &mut self.mover {
            Some(mover) => self.inner.on_batch(&mover.batch(batch)),
            None => self.inner.on_batch(batch),
        }
    }

    fn on_event(&mut self, at: RefIndex, event: &Event) {
        match &mut self.mover {
            Some(mover) => mover.event(event, |event| self.inner.on_event(at, &event)),
            None => self.inner.on_event(at, event),
        }
    }
}
