//! What a text has besides references, said once it is read.

use super::line::{Line, process_of};
use std::sync::{Arc, Mutex, PoisonError};

/// How much of a line is shown.
const SHOWN_BYTES: usize = 60;

/// What was passed over in a text, or may be otherwise than it was read. Shared with the source that reads it: whole
/// when that has come to its end.
#[derive(Clone, Debug, Default)]
pub struct LackeyNotes(Arc<Mutex<Tally>>);

#[derive(Debug, Default)]
struct Tally {
    output: Lines,
    syscalls: Lines,
    third_column: Lines,
    /// Those of other processes than the first, and the first one's number.
    others: Lines,
    process: Option<u32>,
}

/// Lines of one sort.
#[derive(Debug, Default)]
struct Lines {
    count: u64,
    first: Option<(u64, String)>,
}

impl LackeyNotes {
    /// Takes note of line `number`.
    pub(super) fn take(&self, line: Line, number: u64, text: &[u8]) {
        let mut tally = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match line {
            Line::Behind(_) | Line::Other => tally.output.add(number, text),
            Line::Syscall => tally.syscalls.add(number, text),
            Line::ThirdColumn(_) => tally.third_column.add(number, text),
            Line::Message => tally.message(number, text),
            Line::Reference(_) | Line::Idle | Line::Damaged => {}
        }
    }

    /// A sentence for each, with how many lines there are, the first of them, and what would change it.
    pub fn sentences(&self) -> Vec<String> {
        let tally = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all = [
            tally.output.sentence(
                "of other text",
                "what the program printed is passed over; valgrind's --log-file=FILE keeps it apart",
            ),
            tally.syscalls.sentence("of --trace-syscalls=yes", "passed over"),
            tally.third_column.sentence(
                "with a third column",
                "it is passed over; Lackey writes an address and bytes alone",
            ),
            tally.others.sentence(
                "of a second process or program",
                "the references of all are read as one process's; with --trace-children=yes, valgrind's \
                 --log-file=FILE.%p writes a file for each",
            ),
        ];
        all.into_iter().flatten().collect()
    }
}

impl Tally {
    /// A message of Valgrind's tells whose references come.
    fn message(&mut self, number: u64, text: &[u8]) {
        let Some(process) = process_of(text) else { return };
        let first = *self.process.get_or_insert(process);
        if process != first {
            self.others.add(number, text);
        }
    }
}

impl Lines {
    fn add(&mut self, number: u64, text: &[u8]) {
        self.count += 1;
        self.first.get_or_insert_with(|| (number, shown(text.trim_ascii_end())));
    }

    fn sentence(&self, what: &str, why: &str) -> Option<String> {
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
