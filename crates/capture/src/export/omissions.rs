//! What a file does not say, counted.

use pagewalk_trace::Event;

/// What a format cannot say, or says in other words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Omission {
    Mappings,
    Threads,
    SystemCalls,
    Marks,
    Programs,
    Waits,
    Fetches,
    NoCode,
    UnknownBytes,
    Modifies,
    Crossings,
    Sizes,
    Repeated,
}

/// Each with what it is, and what the file has instead.
const SENTENCES: [(Omission, &str, &str); 13] = [
    (Omission::Mappings, "changes of mappings", "left out"),
    (
        Omission::Threads,
        "starts, ends and switches of threads",
        "left out; the references of all are one thread's",
    ),
    (Omission::SystemCalls, "system calls", "left out"),
    (Omission::Marks, "marks of the program", "left out"),
    (Omission::Programs, "forks and other programs", "left out"),
    (Omission::Waits, "sleeps, waits and losses", "left out"),
    (Omission::Fetches, "instruction fetches", "left out"),
    (Omission::NoCode, "references without an instruction", "left out"),
    (Omission::UnknownBytes, "instructions of unknown bytes", "written without them"),
    (Omission::Modifies, "modifies", "each is a load and a store"),
    (Omission::Crossings, "references that cross into other pages", "each is one for each page"),
    (Omission::Sizes, "references of sizes that the format does not say", "their first bytes are written"),
    (
        Omission::Repeated,
        "instructions with more references than a record holds",
        "each is several records of the same address",
    ),
];

/// Counts of what a file does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Omissions([u64; SENTENCES.len()]);

impl Omissions {
    /// Counts `count` more.
    pub(super) fn add(&mut self, sort: Omission, count: u64) {
        self.0[sort as usize] += count;
    }

    /// A sentence for each kind that occurred.
    pub fn sentences(&self) -> Vec<String> {
        let counted = SENTENCES.iter().map(|(sort, what, why)| (self.0[*sort as usize], what, why));
        counted
            .filter(|(count, ..)| *count > 0)
            .map(|(count, what, why)| format!("{what}: {count}; {why}"))
            .collect()
    }
}

/// The kind of an event that a format cannot say; `None` if nothing is lost.
pub(super) fn of_event(event: &Event) -> Option<Omission> {
    Some(match event {
        Event::Map(_)
        | Event::Unmap { .. }
        | Event::Remap { .. }
        | Event::Break { .. }
        | Event::Protect { .. }
        | Event::Advise { .. }
        | Event::ThpDisable { .. } => Omission::Mappings,
        Event::ThreadStart { .. } | Event::ThreadEnd { .. } | Event::Switch { .. } => Omission::Threads,
        Event::Syscall { .. } => Omission::SystemCalls,
        Event::Marker { .. } => Omission::Marks,
        Event::Fork { .. } | Event::Exec { .. } | Event::Reaped { .. } | Event::Replaced => {
            Omission::Programs
        }
        Event::Exit { .. } => return None,
        _ => Omission::Waits,
    })
}
