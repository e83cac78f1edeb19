//! Notes on a text's contents besides references, complete once it is read.

use std::sync::{Arc, Mutex, PoisonError};

/// Most bytes of a line to show.
const SHOWN_BYTES: usize = 60;

/// A kind of lines to note.
pub(super) struct NoteKind {
    /// What they are, after their count: `of other text`.
    pub what: &'static str,
    /// What was done with them, and how to change it.
    pub why: &'static str,
}

/// What was skipped in a text, or may be misread. Shared with the source; complete at its end.
#[derive(Clone)]
pub struct Notes {
    sorts: &'static [NoteKind],
    tallies: Arc<Mutex<Vec<Tally>>>,
}

/// Lines of one kind.
#[derive(Clone, Default)]
struct Tally {
    count: u64,
    first: Option<(u64, String)>,
}

impl Notes {
    pub(super) fn new(sorts: &'static [NoteKind]) -> Notes {
        Notes { sorts, tallies: Arc::new(Mutex::new(vec![Tally::default(); sorts.len()])) }
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
        self.sorts.iter().zip(&*tallies).filter_map(|(sort, tally)| tally.sentence(sort)).collect()
    }
}

impl Tally {
    fn sentence(&self, NoteKind { what, why }: &NoteKind) -> Option<String> {
        let (number, text) = self.first.as_ref()?;
        let lines = if self.count == 1 { "1 line".to_owned() } else { format!("{} lines", self.count) };
        Some(format!("{lines} {what} (line {number}: `{text}`): {why}"))
    }
}

/// The beginning of a line, printable.
pub(super) fn shown(line: &[u8]) -> String {
    let shown = line[..line.len().min(SHOWN_BYTES)].escape_ascii();
    format!("{shown}{}", if line.len() > SHOWN_BYTES { "…" } else { "" })
}
