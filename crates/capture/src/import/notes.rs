//! Notes on a file's contents besides references, complete once it is read.

use std::sync::{Arc, Mutex, PoisonError};

/// Most bytes of a line to show.
const SHOWN_BYTES: usize = 60;

/// A kind of lines or records to note.
pub(super) struct NoteKind {
    /// What they are, after their count: `of other text`.
    pub what: &'static str,
    /// What was done with them, and how to change it.
    pub why: &'static str,
}

/// What was skipped in a file, or may be misread. Shared with the source; complete at its end.
#[derive(Clone)]
pub struct Notes {
    /// What is counted: `line`, `record`.
    unit: &'static str,
    sorts: &'static [NoteKind],
    tallies: Arc<Mutex<Vec<Tally>>>,
}

/// Lines or records of one kind.
#[derive(Clone, Default)]
struct Tally {
    count: u64,
    /// The first one, with its text if it is a line.
    first: Option<(u64, String)>,
}

impl Notes {
    pub(super) fn new(sorts: &'static [NoteKind]) -> Notes {
        Notes { unit: "line", sorts, tallies: Arc::new(Mutex::new(vec![Tally::default(); sorts.len()])) }
    }

    /// Notes on a binary file.
    pub(super) fn on_records(sorts: &'static [NoteKind]) -> Notes {
        Notes { unit: "record", ..Notes::new(sorts) }
    }

    /// Replaces the count of a kind of records, and the first one's number.
    pub(super) fn set(&self, sort: usize, count: u64, first: u64) {
        let tally = &mut self.tallies.lock().unwrap_or_else(PoisonError::into_inner)[sort];
        *tally = Tally { count, first: (count > 0).then_some((first, String::new())) };
    }

    /// Notes line `number` of this kind.
    pub(super) fn add(&self, sort: usize, number: u64, text: &[u8]) {
        let tally = &mut self.tallies.lock().unwrap_or_else(PoisonError::into_inner)[sort];
        tally.count += 1;
        tally.first.get_or_insert_with(|| (number, shown(text.trim_ascii_end())));
    }

    /// A sentence for each kind that occurred: the count, the first line, and how to change the outcome.
    pub fn sentences(&self) -> Vec<String> {
        let tallies = self.tallies.lock().unwrap_or_else(PoisonError::into_inner);
        self.sorts.iter().zip(&*tallies).filter_map(|(sort, tally)| tally.sentence(self.unit, sort)).collect()
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
