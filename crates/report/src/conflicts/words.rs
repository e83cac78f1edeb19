//! Texts that all renderers share.

use super::schema::{ArrayResult, ConflictPage, ConflictsResult};
use crate::figures::base_name;
use crate::numbers::{count, percent};

/// Conflicts below this share of misses are not mentioned.
const LITTLE: f64 = 0.02;

/// The program and the machine.
pub(crate) fn headline(result: &ConflictsResult) -> String {
    format!("{} on {}", base_name(&result.program), result.machine)
}

/// An array's shape.
pub(crate) fn array_title(array: &ArrayResult) -> String {
    let entries = array.sets.saturating_mul(array.ways);
    let shape = match array.sets {
        1 => format!("{entries} entries, fully associative"),
        sets => format!("{entries} entries, {sets} sets of {} ways", array.ways),
    };
    let other = match array.replacement.as_str() {
        "lru" => String::new(),
        other => format!("; simulated with LRU, where the machine has {other}"),
    };
    format!("{}, for {}: {shape}{other}", array.name, array.serves)
}

/// A page's owner and its offset in the owner's file.
pub(crate) fn page_name(page: &ConflictPage) -> String {
    let owner = base_name(&page.owner);
    match &page.file_offset {
        Some(offset) => format!("{owner}+{offset}"),
        None => format!("{owner} {}", page.start),
    }
}

/// Whether an array has enough conflict misses for moving libraries to be worth a try.
pub fn places_could_help(array: &ArrayResult) -> bool {
    array.misses.total() > 0 && array.share_of_misses(array.conflict) >= LITTLE
}

/// What an array's figures mean for the placement of libraries.
pub(crate) fn summary(array: &ArrayResult) -> String {
    let misses = array.misses.total();
    if misses == 0 {
        return "No reference missed.".to_owned();
    }
    let share = array.share_of_misses(array.conflict);
    let spared = match array.spared {
        0 => String::new(),
        spared => format!("; the sets also spare it {} misses that it would have", count(spared)),
    };
    if !places_could_help(array) {
        return format!(
            "Nothing to gain from other places: {} of its misses are conflicts, which a fully associative array of \
             the same size would not have{spared}.",
            percent(share)
        );
    }
    let hottest = array.graphs.first().map_or(String::new(), |graph| {
        format!(", {} of all in set {}", percent(array.share_of_misses(graph.misses)), graph.set)
    });
    format!(
        "Other places could help: {} of its misses are conflicts, which a fully associative array of the same size \
         would not have{spared}. Misses vary by {:.2} of their mean between sets{hottest}.",
        percent(share),
        array.variation
    )
}
