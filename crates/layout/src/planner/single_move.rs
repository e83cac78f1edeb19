//! Method 1: moves the object whose page is most involved in the worst set, alone.
//!
//! The worst set is the one with most misses. Its page with most evictions, of others and by others, decides if it
//! belongs to a movable object; else the next one does. The object moves so that this page goes to the set with fewest
//! misses.
//!
//! The source moved libraries by hand and says neither which free range it took nor how it chose among sets:
//! [`TargetSet`] names both choices.
//!
//! Source: S. Konireddygari, MS thesis, NC State University 2008, section 3.2 and figures 3.1 and 3.2.

use super::Movables;
use crate::evictions::ArrayHistory;
use crate::graph::{DrawThreshold, EvictionGraph};

/// The destination set of the hot page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TargetSet {
    /// The set with fewest misses; the first of several.
    #[default]
    Fewest,
    /// The set for which all pages of the object go to sets with few misses, weighted by their evictions.
    Weighed,
}

/// A single move.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ObjectMove {
    /// The object's index among the movable ones.
    pub object: usize,
    /// The deciding page: an index into [`ArrayHistory::pages`].
    pub page: usize,
    /// Its old and its new set.
    pub sets: [usize; 2],
    /// By how many pages the object moves, modulo the sets.
    pub shift: u64,
    /// Evictions in the worst set that involve the page, relative to all misses.
    pub involvement: f64,
}

/// The move; `None` if no page of a movable object takes part in an eviction in the worst set.
pub fn choose(history: &ArrayHistory, movables: &Movables, target: TargetSet) -> Option<ObjectMove> {
    let sets = history.misses_by_set.len();
    let by_misses = |&set: &usize| (history.misses_by_set[set], std::cmp::Reverse(set));
    let worst = (0..sets).max_by_key(by_misses)?;
    let graph = EvictionGraph::new(history, worst, DrawThreshold::Evictions(0));
    let movable = |page: usize| movables.of(history.pages[page].owner, history.pages[page].page);
    let node = graph.nodes.iter().find(|node| movable(node.page).is_some())?;
    let object = movable(node.page)?;
    let shift_to = |set: usize| (set + sets - worst) % sets;
    let new_set = |page: usize, shift: usize| (history.array.set_of(history.pages[page].page) + shift) % sets;
    let own: Vec<usize> = (0..history.pages.len()).filter(|&page| movable(page) == Some(object)).collect();
    let cost = |set: usize| -> u128 {
        match target {
            TargetSet::Fewest => history.misses_by_set[set].into(),
            TargetSet::Weighed => {
                let of = |&page: &usize| {
                    let there = history.misses_by_set[new_set(page, shift_to(set))];
                    u128::from(history.pages[page].involved()) * u128::from(there)
                };
                own.iter().map(of).sum()
            }
        }
    };
    let best = (0..sets).filter(|&set| set != worst).min_by_key(|&set| (cost(set), set))?;
    let involvement = node.weight() as f64 / history.misses.total().max(1) as f64;
    Some(ObjectMove {
        object,
        page: node.page,
        sets: [worst, best],
        shift: shift_to(best) as u64,
        involvement,
    })
}
