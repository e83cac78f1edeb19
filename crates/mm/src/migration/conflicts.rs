//! Conflicts: counted pages of one color, and the moves that part them.

use super::{CmlTuple, Targets};
use crate::frames::Frame;
use crate::placement::Colors;
use crate::promotion::PageMove;
use std::collections::BTreeMap;

/// Pages that compete: those of each color that has several, by color.
pub(super) fn competing<T>(pages: impl IntoIterator<Item = (u64, T)>) -> BTreeMap<u64, Vec<T>> {
    let mut by_color: BTreeMap<u64, Vec<T>> = BTreeMap::new();
    for (color, page) in pages {
        by_color.entry(color).or_default().push(page);
    }
    by_color.retain(|_, pages| pages.len() > 1);
    by_color
}

/// Moves of all pages that counted more than `above` misses and compete but one of each color: one that cannot move, or
/// that counted most. Each comes with the frame that its page leaves. `counted`: all counted pages; those that move
/// count no longer for the target.
pub(super) fn part(
    mut counted: Vec<CmlTuple>,
    above: u64,
    colors: Colors,
    targets: &mut Targets,
) -> Vec<(Frame, PageMove)> {
    let hot = counted.iter().filter(|tuple| tuple.count > above);
    let groups = competing(hot.map(|&tuple| (colors.of(tuple.frame), tuple)));
    let taken: Vec<u64> = groups.keys().copied().collect();
    let mut moves = Vec::new();
    for mut tuples in groups.into_values() {
        tuples.sort_by_key(|tuple| std::cmp::Reverse((tuple.page.is_none(), tuple.count)));
        for CmlTuple { frame, page, .. } in tuples.into_iter().skip(1) {
            let Some(page) = page else { continue };
            let misses = |color| {
                let of_it = counted.iter().filter(|tuple| colors.of(tuple.frame) == color);
                of_it.map(|tuple| tuple.count).sum()
            };
            let Some(color) = targets.choose(colors.count, &taken, misses) else { return moves };
            moves.push((frame, PageMove { page, color }));
            counted.retain(|tuple| tuple.frame != frame);
        }
    }
    moves
}
