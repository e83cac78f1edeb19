//! Counts of what the stream cannot say.

use super::super::notes::{NoteKind, Notes};

/// What is left out or changed, and counted.
const SORTS: [NoteKind; 11] = [
    NoteKind {
        what: "of instructions without a fetch (further iterations of string instructions)",
        why: "they are not counted as instructions; their references, up to 1,024, belong to the instruction before",
    },
    NoteKind { what: "of references of unknown size", why: "each is read as one byte" },
    NoteKind {
        what: "of references of sizes that traces here do not know",
        why: "each is read as the next larger size, or as the next smaller one if that would reach another page",
    },
    NoteKind { what: "of the kernel's instructions and references", why: "left out" },
    NoteKind { what: "of prefetches", why: "left out" },
    NoteKind { what: "of cache flushes", why: "left out" },
    NoteKind { what: "of physical addresses", why: "left out" },
    NoteKind { what: "of functions, their arguments and results", why: "left out" },
    NoteKind { what: "of signals and other transfers by the kernel", why: "left out; what they ran is read" },
    NoteKind {
        what: "of another window of tracing",
        why: "what ran between windows is missing: TLBs are warmer than they would be",
    },
    NoteKind {
        what: "of a filtered trace",
        why: "the tracer left out references, by a cache of its own or all data: counts are not the program's",
    },
];
pub(super) const NO_FETCH: usize = 0;
pub(super) const UNKNOWN_SIZE: usize = 1;
pub(super) const OTHER_SIZE: usize = 2;
pub(super) const KERNEL: usize = 3;
pub(super) const PREFETCHES: usize = 4;
pub(super) const FLUSHES: usize = 5;
pub(super) const PHYSICAL: usize = 6;
pub(super) const FUNCTIONS: usize = 7;
pub(super) const TRANSFERS: usize = 8;
pub(super) const WINDOWS: usize = 9;
pub(super) const FILTERED: usize = 10;

/// Counts of left-out records, by index in [`SORTS`].
pub(super) struct Tallies {
    notes: Notes,
    counts: [u64; SORTS.len()],
    firsts: [u64; SORTS.len()],
}

impl Tallies {
    pub fn new() -> Tallies {
        Tallies { notes: Notes::on_records(&SORTS), counts: [0; SORTS.len()], firsts: [0; SORTS.len()] }
    }

    /// The notes, without the counts until [`Tallies::publish`].
    pub fn notes(&self) -> Notes {
        self.notes.clone()
    }

    /// Counts record `number`.
    pub fn add(&mut self, sort: usize, number: u64) {
        if self.counts[sort] == 0 {
            self.firsts[sort] = number;
        }
        self.counts[sort] += 1;
    }

    /// Shows the counts in the notes.
    pub fn publish(&self) {
        for (sort, (count, first)) in self.counts.iter().zip(self.firsts).enumerate() {
            self.notes.set(sort, *count, first);
        }
    }
}
