//! Groups: parts of a run with counters of their own on the first design. Each kind is one file and one line of
//! [`KINDS`].
//!
//! A batch belongs to one thread of one process, so it accounts for the change of the first design's counters. Each
//! kind gets that change after the batch, so batches run at full speed.

mod threads;

use crate::counts::SpaceCounts;
use pagewalk_trace::{Batch, Event};
use pagewalk_translate::Asid;

/// All kinds, in the order of results.
const KINDS: &[fn() -> Box<dyn GroupCounter>] = &[|| Box::<threads::Threads>::default()];

/// A part of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupCounts {
    /// Its kind, such as `thread`.
    pub kind: &'static str,
    /// Its process.
    pub space: Asid,
    /// Its name, unique within its kind and process.
    pub name: String,
    /// Its counts on the first design.
    pub counts: SpaceCounts,
}

/// Counts the groups of one kind.
trait GroupCounter: Send {
    /// The process in `space` has executed part of a batch, with these `counts`.
    fn ran(&mut self, space: Asid, batch: &Batch<'_>, counts: SpaceCounts);

    /// An event of the process in `space`.
    fn happened(&mut self, space: Asid, event: &Event);

    /// The groups so far, by process. Empty if they would repeat the totals.
    fn groups(&self) -> Vec<GroupCounts>;
}

/// The groups of one run.
pub(crate) struct Groups(Vec<Box<dyn GroupCounter>>);

impl Groups {
    pub fn new() -> Groups {
        Groups(KINDS.iter().map(|new| new()).collect())
    }

    /// The process in `space` has executed part of a batch, which took the first design's counters from `before` to
    /// `after`.
    pub fn ran(&mut self, space: Asid, batch: &Batch<'_>, before: SpaceCounts, after: SpaceCounts) {
        let counts = after.since(&before);
        if counts != SpaceCounts::default() {
            self.0.iter_mut().for_each(|kind| kind.ran(space, batch, counts));
        }
    }

    /// An event of the process in `space`.
    pub fn happened(&mut self, space: Asid, event: &Event) {
        self.0.iter_mut().for_each(|kind| kind.happened(space, event));
    }

    /// All groups so far.
    pub fn all(&self) -> Vec<GroupCounts> {
        self.0.iter().flat_map(|kind| kind.groups()).collect()
    }
}
