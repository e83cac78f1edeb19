//! Collects what planners need from a stream, in one reading for all planners and machines.

use super::Planner;
use super::reuses::{Reuses, StreamReuses, last_level};
use crate::calls::{CallGraph, Calls};
use crate::evictions::{ArrayHistory, ArraySpec, DEFAULT_ROWS, Evictions};
use pagewalk_trace::{Analysis, Batch, Event, StreamHeader};
use pagewalk_translate::MachineSpec;
use pagewalk_units::RefIndex;
use std::ops::Range;

/// Watches a stream for planners: reuses for all, evictions and calls for those that need them.
pub struct Views {
    reuses: Reuses,
    evictions: Option<Evictions>,
    calls: Option<Calls>,
    /// By machine: its range among all arrays.
    arrays: Vec<Range<usize>>,
}

impl Views {
    /// For `planners` on `machines`, over a stream with this header, with `room` numbers for each array's reuses.
    pub fn new(header: &StreamHeader, machines: &[MachineSpec], planners: &[Planner], room: usize) -> Views {
        let spec = |tlb| ArraySpec::of(tlb).expect("supported machines have sets");
        let specs: Vec<ArraySpec> = machines.iter().flat_map(last_level).map(spec).collect();
        let wants = |planner| planners.contains(&planner);
        let mut next = 0;
        let arrays = machines.iter().map(|machine| {
            let first = next;
            next += last_level(machine).len();
            first..next
        });
        Views {
            arrays: arrays.collect(),
            reuses: Reuses::new(header, machines, room),
            evictions: wants(Planner::Single).then(|| Evictions::new(header, &specs, DEFAULT_ROWS)),
            calls: wants(Planner::Callgraph).then(|| Calls::new(header)),
        }
    }

    /// The separate analyses, to run on several threads; each must be given the whole stream.
    pub fn parts(&mut self) -> Vec<&mut dyn Analysis> {
        let evictions = self.evictions.as_mut().map(|evictions| evictions as &mut dyn Analysis);
        let calls = self.calls.as_mut().map(|calls| calls as &mut dyn Analysis);
        std::iter::once(&mut self.reuses as &mut dyn Analysis).chain(evictions).chain(calls).collect()
    }

    /// The result.
    pub fn finish(self) -> StreamView {
        StreamView {
            found: self.reuses.finish(),
            histories: self.evictions.map(|evictions| evictions.finish().0),
            calls: self.calls.map(Calls::finish),
            arrays: self.arrays,
        }
    }
}

impl Analysis for Views {
    fn on_batch(&mut self, batch: &Batch<'_>) {
        self.parts().into_iter().for_each(|part| part.on_batch(batch));
    }

    fn on_event(&mut self, at: RefIndex, event: &Event) {
        self.parts().into_iter().for_each(|part| part.on_event(at, event));
    }
}

/// A stream as planners see it.
pub struct StreamView {
    /// Reuses, pages and objects.
    pub found: StreamReuses,
    /// By array, for [`Planner::Single`].
    histories: Option<Vec<ArrayHistory>>,
    /// For [`Planner::Callgraph`].
    pub(super) calls: Option<CallGraph>,
    arrays: Vec<Range<usize>>,
}

impl StreamView {
    /// Calls `of` with only the reuses of these adjacent machines.
    pub(super) fn with_machines<R>(
        &mut self,
        machines: Range<usize>,
        see: impl FnOnce(&StreamReuses) -> R,
    ) -> R {
        let arrays = self.arrays_of(machines);
        let wanted: Vec<_> = self.found.arrays.drain(arrays.clone()).collect();
        let others = std::mem::replace(&mut self.found.arrays, wanted);
        let seen = see(&self.found);
        let wanted = std::mem::replace(&mut self.found.arrays, others);
        self.found.arrays.splice(arrays.start..arrays.start, wanted);
        seen
    }

    /// Evictions in these adjacent machines' arrays; empty if not collected.
    pub(super) fn histories(&self, machines: Range<usize>) -> &[ArrayHistory] {
        let arrays = self.arrays_of(machines);
        self.histories.as_ref().map_or(&[], |all| &all[arrays])
    }

    /// The arrays of adjacent machines.
    pub fn arrays_of(&self, machines: Range<usize>) -> Range<usize> {
        let first = self.arrays.get(machines.start).map_or(0, |arrays| arrays.start);
        let end = machines.end.checked_sub(1).and_then(|last| self.arrays.get(last));
        first..end.map_or(first, |arrays| arrays.end)
    }
}
