//! Both ends of a pass: sources that yield items, and analyses that consume them.

use crate::{Batch, BatchRoom, Event, Item, StreamHeader};
use pagewalk_units::{RefIndex, SpaceId};
use std::sync::Arc;

/// Why a source cannot continue. The text names the thing, the place and what was expected.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// Malformed bytes. All items before them have been yielded.
    #[error("{0}")]
    Malformed(String),
    /// Truncated bytes. All whole parts have been yielded.
    #[error("{0}")]
    Truncated(String),
    /// Reading failed.
    #[error("reading failed: {0}")]
    Io(#[from] std::io::Error),
}

/// A stream of one process.
pub trait Source {
    /// The stream's properties.
    fn header(&self) -> &StreamHeader;

    /// The next item in program order, or `None` at the end.
    fn next_item(&mut self) -> Result<Option<Item<'_>>, SourceError>;

    /// From now on only events are of interest: batches may be empty, or left out. May be called again.
    fn leave_batches_out(&mut self) {}

    /// Whether [`Source::give_room`] works.
    fn gives_rooms(&self) -> bool {
        false
    }

    /// Gives away the room of the batch that [`Source::next_item`] yielded last, in exchange for any other. Does
    /// nothing if the source gives none.
    fn give_room(&mut self, _for_another: &mut BatchRoom) {}

    /// Whether the next item comes without waiting for the stream's writer.
    fn is_ready(&self) -> bool {
        true
    }

    /// A view of how much is written but unread; `None` if everything is there from the beginning.
    fn backlog(&self) -> Option<Arc<dyn Backlog>> {
        None
    }
}

/// A source with dynamic type.
impl<S: Source + ?Sized> Source for Box<S> {
    fn header(&self) -> &StreamHeader {
        (**self).header()
    }

    fn next_item(&mut self) -> Result<Option<Item<'_>>, SourceError> {
        (**self).next_item()
    }

    fn leave_batches_out(&mut self) {
        (**self).leave_batches_out();
    }

    fn gives_rooms(&self) -> bool {
        (**self).gives_rooms()
    }

    fn give_room(&mut self, for_another: &mut BatchRoom) {
        (**self).give_room(for_another);
    }

    fn is_ready(&self) -> bool {
        (**self).is_ready()
    }

    fn backlog(&self) -> Option<Arc<dyn Backlog>> {
        (**self).backlog()
    }
}

/// For a stream written while it is read: shows when there is much to read. Used from another thread than the reader's.
pub trait Backlog: Send + Sync {
    /// Sleeps until there is much to read or nothing more will come, at most about a tenth of a second.
    fn wait(&self);

    /// Ends a running [`Backlog::wait`].
    fn stir(&self);

    /// Lets the writer continue, if it waits for room and there is much.
    fn go_on(&self);
}

/// A consumer of a pass: a machine, a profiler, a writer. Called per batch, never per reference.
pub trait Analysis: Send {
    /// Processes a batch. Hot; cannot fail.
    fn on_batch(&mut self, batch: &Batch<'_>);

    /// Whether it needs no more input, as its result would not be used.
    fn is_done(&self) -> bool {
        false
    }

    /// Processes an event at its place.
    fn on_event(&mut self, _at: RefIndex, _event: &Event) {}

    /// Analyses that from now on must see each batch before this one does, on any threads; none if nothing can be done
    /// ahead. Asked before the first item.
    fn forerunners(&mut self) -> Vec<Box<dyn Analysis>> {
        Vec::new()
    }

    /// If several streams take turns: from here on, items belong to the stream with this number. Called before each
    /// turn.
    fn on_turn(&mut self, _space: SpaceId) {}
}

/// What points to an analysis is one.
macro_rules! analyses_behind {
    ($($pointer:ty),*) => {$(
        impl<A: Analysis + ?Sized> Analysis for $pointer {
            fn on_batch(&mut self, batch: &Batch<'_>) {
                (**self).on_batch(batch);
            }

            fn is_done(&self) -> bool {
                (**self).is_done()
            }

            fn on_event(&mut self, at: RefIndex, event: &Event) {
                (**self).on_event(at, event);
            }

            fn forerunners(&mut self) -> Vec<Box<dyn Analysis>> {
                (**self).forerunners()
            }

            fn on_turn(&mut self, space: SpaceId) {
                (**self).on_turn(space);
            }
        }
    )*};
}

analyses_behind!(&mut A, Box<A>);

macro_rules! analyses_in {
    ($($holder:ty),*) => {$(
        /// Passes everything to each analysis in it. It is done if it holds some and all are done.
        impl<A: Analysis> Analysis for $holder {
            fn forerunners(&mut self) -> Vec<Box<dyn Analysis>> {
                self.iter_mut().flat_map(A::forerunners).collect()
            }

            fn on_batch(&mut self, batch: &Batch<'_>) {
                self.iter_mut().for_each(|analysis| analysis.on_batch(batch));
            }

            fn on_event(&mut self, at: RefIndex, event: &Event) {
                self.iter_mut().for_each(|analysis| analysis.on_event(at, event));
            }

            fn on_turn(&mut self, space: SpaceId) {
                self.iter_mut().for_each(|analysis| analysis.on_turn(space));
            }

            fn is_done(&self) -> bool {
                self.iter().next().is_some() && self.iter().all(A::is_done)
            }
        }
    )*};
}

analyses_in!(Vec<A>, Option<A>);

/// Two analyses of different kinds.
impl<A: Analysis, B: Analysis> Analysis for (A, B) {
    fn forerunners(&mut self) -> Vec<Box<dyn Analysis>> {
        self.0.forerunners().into_iter().chain(self.1.forerunners()).collect()
    }

    fn on_batch(&mut self, batch: &Batch<'_>) {
        self.0.on_batch(batch);
        self.1.on_batch(batch);
    }

    fn on_event(&mut self, at: RefIndex, event: &Event) {
        self.0.on_event(at, event);
        self.1.on_event(at, event);
    }

    fn on_turn(&mut self, space: SpaceId) {
        self.0.on_turn(space);
        self.1.on_turn(space);
    }

    fn is_done(&self) -> bool {
        self.0.is_done() && self.1.is_done()
    }
}
