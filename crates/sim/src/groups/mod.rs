//! Parts of a run that have counters of their own on the first design: one file a kind, and its line in [`KINDS`].
//!
//! A batch is of one thread of one process, so what the counters of the first design say more after it is of that
//! part. A kind is told so after each batch: nothing is looked at while a batch runs.

mod threads;

use crate::counts::SpaceCounts;
use pagewalk_trace::{Batch, Event};
use pagewalk_translate::Asid;

/// All kinds, in the order in which results have them.
const KINDS: &[fn() -> Box<dyn Kind>] = &[|| Box::<threads::Threads>::default()];

/// A part of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// What kind of part it is, such as `thread`.
    pub kind: &'static str,
    /// The process that it is a part of.
    pub space: Asid,
    /// What tells it from others of its kind in its process.
    pub name: String,
    /// What it did, and cost on the first design.
    pub counts: SpaceCounts,
}

/// A kind of parts.
trait Kind: Send {
    /// The process in `space` has executed some of a batch: `counts` is what that did.
    fn ran(&mut self, space: Asid, batch: &Batch<'_>, counts: SpaceCounts);

    /// Something happened in the process in `space`.
    fn happened(&mut self, space: Asid, event: &Event);

    /// The parts seen so far, each process's together. None where they would say what the whole says.
    fn groups(&self) -> Vec<Group>;
}

/// The parts of one run.
pub(crate) struct Groups(Vec<Box<dyn Kind>>);

impl Groups {
    pub fn new() -> Groups {
        Groups(KINDS.iter().map(|new| new()).collect())
    }

    /// The process in `space` has executed some of a batch, which took the counters of the first design from `before`
    /// to `after`.
    pub fn ran(&mut self, space: Asid, batch: &Batch<'_>, before: SpaceCounts, after: SpaceCounts) {
        let counts = after.since(&before);
        if counts != SpaceCounts::default() {
            self.0.iter_mut().for_each(|kind| kind.ran(space, batch, counts));
        }
    }

    /// Something happened in the process in `space`.
    pub fn happened(&mut self, space: Asid, event: &Event) {
        self.0.iter_mut().for_each(|kind| kind.happened(space, event));
    }

    /// All parts that there are so far.
    pub fn all(&self) -> Vec<Group> {
        self.0.iter().flat_map(|kind| kind.groups()).collect()
    }
}
