//! Findings that several sections share.

use crate::figures::whole;
use crate::numbers::percent;
use crate::printable::shortened;
use crate::schema::ProcessResult;

/// Characters of a name in a title.
const TITLED: usize = 60;

/// Walks on the first machine.
pub(super) fn walks(process: &ProcessResult) -> u64 {
    process.machines.first().and_then(|machine| whole(machine, "walks")).unwrap_or(0)
}

/// A part of all walks.
pub(super) fn share(walks: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { walks as f64 / all as f64 }
}

/// The finding about the row with most walks.
pub(super) fn first(row: Option<(&str, u64)>, all: u64) -> Option<String> {
    let (name, walks) = row.filter(|_| all > 0)?;
    Some(format!("{} causes {} of all page walks", shortened(name, TITLED), percent(share(walks, all))))
}

/// The text with a capital first letter.
pub(super) fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}
