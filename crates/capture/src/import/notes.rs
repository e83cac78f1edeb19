//! What a text has besides references, said once it is read.

use std::sync::{Arc, Mutex, PoisonError};

/// How much of a line is shown.
const SHOWN_BYTES: usize = 60;

/// A sort of lines that are told of.
pub(super) struct NoteKind {
    /// What they are, after their number: `of other text`.
    pub what: &'static str,
    /// What became of them, and what would change it.
    pub why: &'static str,
}

/// What was passed over in a text, or may be otherwise than it was read. Shared with the source that reads it: whole
/// when that has come to its end.
#[derive(Clone)]
pub struct Notes {
    sorts: &'static [NoteKind],
    tallies: Arc<Mutex<Vec<Tally>>>,
}

/// Lines of one sort.
#[derive(Clone, Default)]
struct Tally {
    count: u64,
    first: Option<(u64, String)>,
}

impl Notes {
    pub(super) fn new(sorts: &'static [NoteKind]) -> Notes {
        Notes { sorts, tallies: Arc::new(Mutex::new(vec![Tally::default(); sorts.len()])) }
    }

    /// Takes note of line `number`, which is of this sort.
    pub(super) fn add(&self, sort: usize, number: u64, text: &[u8]) {
        let tally = &mut self.tallies.lock().unwrap_or_else(PoisonError::into_inner)[sort];
        tally.count += 1;
        tally.first.get_or_insert_with(|| (number, shown(text.trim_ascii_end())));
    }

    /// A sentence for each sort that there is, with how many lines there are, the first of them, and what would change
    /// it.
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

/// The begin of a line, fit to be printed.
pub(super) fn shown(line: &[u8]) -> String {
    let shown = line[..line.len().min(SHOWN_BYTES)].escape_ascii();
    format!("{shown}{}", if line.len() > SHOWN_BYTES { "…" } else { "" })
}
