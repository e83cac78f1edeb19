//! A recorded stream as if its shared objects lay elsewhere.
//!
//! Everything of an object moves with it, from its recorded to its planned base: data references, instructions, and
//! events about it. Nothing else changes: the program does not run again, so whatever depends on addresses (hash tables
//! of pointers, the loader's own work) stays as recorded.
//!
//! [`PlanBinding::new`] checks a plan against a stream's events; after that nothing can fail. [`slide`] finds room for
//! a plan that was just made. [`RebasedSource`] moves what a source yields.

mod bound;
mod mover;
mod slide;
mod table;

pub use bound::{PlanBinding, RebaseError};
pub use mover::Mover;
pub use slide::slide;

use pagewalk_trace::{Event, Item, Source, SourceError, StreamHeader};
use pagewalk_units::RefIndex;
use std::collections::VecDeque;

/// A source with its objects at the planned addresses.
pub struct RebasedSource<S> {
    inner: S,
    mover: Mover,
    /// Events that replace one event of the inner source.
    pending: VecDeque<Event>,
    at: RefIndex,
}

impl<S: Source> RebasedSource<S> {
    /// `inner` from its beginning; `bound` was made for it.
    pub fn new(inner: S, bound: &PlanBinding) -> RebasedSource<S> {
        let mover = Mover::new(bound, inner.header());
        RebasedSource { inner, mover, pending: VecDeque::new(), at: RefIndex(0) }
    }
}

impl<S: Source> Source for RebasedSource<S> {
    fn header(&self) -> &StreamHeader {
        self.inner.header()
    }

    fn next_item(&mut self) -> Result<Option<Item<'_>>, SourceError> {
        let RebasedSource { inner, mover, pending, at } = self;
        loop {
            if let Some(event) = pending.pop_front() {
                return Ok(Some(Item::Event { at: *at, event }));
            }
            match inner.next_item()? {
                Some(Item::Batch(batch)) => return Ok(Some(Item::Batch(mover.batch(&batch)))),
                Some(Item::Event { at: place, event }) => {
                    *at = place;
                    mover.event(&event, |event| pending.push_back(event));
                }
                None => return Ok(None),
            }
        }
    }

    fn leave_batches_out(&mut self) {
        self.inner.leave_batches_out();
    }
}
