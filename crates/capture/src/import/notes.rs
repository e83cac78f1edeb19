//! Notes on a file's contents besides references, complete once it is read.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most bytes of a line to show.
const SHOWN_BYTES: usize = 60;

/// A kind of lines or records to note.
pub(super) struct NoteKind {
    /// What they are, after their count: `of other text`.
    pub what: &'static str,
    /// What was done with them, and how to change it.
    pub why: &'static str,
}

/// What was skipped in a file, what may be misread, and what was assumed. Shared with the source; complete at its end.
#[derive(Clone)]
pub struct Notes {
    /// What the file consists of: `line` or `record`.
    unit: &'static str,
    sorts: &'static [NoteKind],
    facts: &'static [&'static str],
    found: Arc<Mutex<Found>>,
}

/// What was noted so far.
struct Found {
    tallies: Vec<Tally>,
    remarks: Vec<String>,
}

/// Lines or records of one kind.
#[derive(Clone, Default)]
struct Tally {
    count: u64,
    /// The first one, with its text if it is a line.
    first: Option<(u64, String)>,
}

impl Notes {
    /// For a file of `unit`s, with these kinds to note, and facts that are told in any case.
    pub(super) fn new(
        unit: &'static str,
        sorts: &'static [NoteKind],
        facts: &'static [&'static str],
    ) -> Notes {
        let found = Found { tallies: vec![Tally::default(); sorts.len()], remarks: Vec::new() };
        Notes { unit, sorts, facts, found: Arc::new(Mutex::new(found)) }
    }

    /// Notes on a binary file.
    pub(super) fn on_records(sorts: &'static [NoteKind]) -> Notes {
        Notes::new("record", sorts, &[])
    }

    /// Replaces the count of a kind of records, and the first one's number.
    pub(super) fn set(&self, sort: usize, count: u64, first: u64) {
        let tally = &mut self.found().tallies[sort];
        *tally = Tally { count, first: (count > 0).then_some((first, String::new())) };
    }

    fn found(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a sentence about the whole file.
    pub(super) fn remark(&self, sentence: String) {
        self.found().remarks.push(sentence);
    }

    /// Notes line or record `number` of this kind.
    pub(super) fn add(&self, sort: usize, number: u64, text: &[u8]) {
        let tally = &mut self.found().tallies[sort];
        tally.count += 1;
        tally.first.get_or_insert_with(|| (number, shown(text.trim_ascii_end())));
    }

    /// A sentence for each kind that occurred: the count, the first one, and how to change the outcome. Then those
    /// about the whole file, and what every file of the format lacks.
    pub fn sentences(&self) -> Vec<String> {
        let found = self.found();
        let tallied = self.sorts.iter().zip(&found.tallies);
        let tallied = tallied.filter_map(|(sort, tally)| tally.sentence(self.unit, sort));
        let facts = self.facts.iter().map(|&fact| fact.to_owned());
        tallied.chain(found.remarks.iter().cloned()).chain(facts).collect()
    }
}

impl Tally {
    fn sentence(&self, unit: &str, NoteKind { what, why }: &NoteKind) -> Option<String> {
        let (number, text) = self.first.as_ref()?;
        let plural = if self.count == 1 { "" } else { "s" };
        let text = if text.is_empty() { String::new() } else { format!(": `{text}`") };
        Some(format!("{} {unit}{plural} {what} ({unit} {number}{text}): {why}", self.count))
    }
}

/// The beginning of a line, printable.
pub(super) fn shown(line: &[u8]) -> String {
    let shown = line[..line.len().min(SHOWN_BYTES)].escape_ascii();
    format!("{shown}{}", if line.len() > SHOWN_BYTES { "…" } else { "" })
}
