//! A recorded stream as it would have been with its shared objects elsewhere.
//!
//! Everything of an object moves with it, by its planned base less its recorded one: data references, instructions,
//! and what events say of it. Nothing else moves, and nothing else changes: the program does not run again, so whatever
//! depends on addresses (hash tables over pointers, the loader's own work) is as it was recorded.
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

/// A source whose objects lie as planned.
pub struct RebasedSource<S> {
    inner: S,
    mover: Mover,
    /// What one event of the inner source became.
    pending: VecDeque<Event>,
    at: RefIndex,
}

impl<S: Source> RebasedSource<S> {
    /// `inner` from its beginning, which `bound` was made for.
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
}
