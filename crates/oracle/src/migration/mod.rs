//! Policies that move pages to other colors, as slow models. They see the TLBs' contents as a list.

mod active;
mod cap;
mod cml;
mod heavy_hitters;
mod periodic;
mod sites;
mod snapshot;

pub use active::Active;
pub use cap::Capped;
pub use cml::{Cml, CmlList, MissList, Tuple};
pub use heavy_hitters::SpaceSavingList;
pub use periodic::Periodic;
pub use sites::Sites;
pub use snapshot::{Snapshot, SnapshotTimes};

use pagewalk_units::Draws;
use std::collections::BTreeMap;

/// A page and a color.
pub type Colored = (u64, u64);

/// A translation in a TLB, or one that is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Translation {
    /// The first page of what it maps: a page or a superpage.
    pub first: u64,
    /// The page whose miss filled it.
    pub page: u64,
    /// The color of that page's frame.
    pub color: u64,
}

/// What a policy wants at an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// Pages to move, with their new colors.
    pub moves: Vec<Colored>,
    /// Whether all translations are to be dropped.
    pub drops_all: bool,
    /// The page whose translations are to be dropped.
    pub drops: Option<u64>,
    /// Cycles of its work.
    pub cycles: u64,
}

/// A policy.
pub trait MigrationModel {
    /// A translation is missing in a TLB. `tlbs`: all that TLBs hold.
    fn missed(&mut self, _missing: Translation, _tlbs: &[Translation], _cycles: u64) -> Wishes {
        Wishes::default()
    }

    /// The kernel tells that a page has left its frame, but not for a wish.
    fn left_frame(&mut self, _page: u64) {}

    /// A cache hit in a frame.
    fn cache_hit(&mut self, _frame: u64) {}

    /// A cache miss in a frame, which now holds a page if it is the program's.
    fn cache_missed(&mut self, _frame: u64, _page: Option<u64>, _cycles: u64) -> Wishes {
        Wishes::default()
    }
}

/// Which of the allowed colors a page moves to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetChoice {
    /// The next in turn.
    Sequential,
    /// The one with the fewest misses; of several, the next in turn.
    ColdestMiss,
    /// The one with the fewest references; of several, the next in turn.
    ColdestReference,
    /// The first from a random color on.
    Random,
}

/// Chooses target colors.
#[derive(Clone, Debug)]
pub struct Target {
    choice: TargetChoice,
    draws: Draws,
    last: Option<u64>,
    /// The colors of all references since the policy began to count.
    pub references: Vec<u64>,
}

impl Target {
    /// Targets chosen so.
    pub fn new(choice: TargetChoice, draws: Draws) -> Target {
        Target { choice, draws, last: None, references: Vec::new() }
    }

    /// The color for the next move. `misses`: by color.
    pub fn next(&mut self, excluded: &[u64], misses: &[u64]) -> Option<u64> {
        let colors = misses.len() as u64;
        let start = match self.choice {
            TargetChoice::Random => self.draws.below(colors),
            _ => self.last.map_or(0, |last| last + 1),
        };
        let in_turn = (start..start + colors).map(|color| color % colors);
        let mut allowed: Vec<u64> = in_turn.filter(|color| !excluded.contains(color)).collect();
        let heat = |color: u64| match self.choice {
            TargetChoice::ColdestMiss => misses[color as usize],
            TargetChoice::ColdestReference => {
                self.references.iter().filter(|&&of| of == color).count() as u64
            }
            _ => 0,
        };
        let least = allowed.iter().map(|&color| heat(color)).min()?;
        allowed.retain(|&color| heat(color) == least);
        self.last = Some(*allowed.first()?);
        self.last
    }
}

/// The different pages whose misses filled TLBs, by ascending number.
fn pages_of(tlbs: &[Translation]) -> Vec<Colored> {
    let pages: BTreeMap<u64, u64> = tlbs.iter().map(|of| (of.page, of.color)).collect();
    pages.into_iter().collect()
}

/// The colors that several of these pages have, by ascending number.
fn shared_colors(pages: &[Colored], colors: u64) -> Vec<u64> {
    let users = |color: u64| pages.iter().filter(|(_, of)| *of == color).count();
    (0..colors).filter(|&color| users(color) > 1).collect()
}

/// Moves of all competing pages but one of each color: a frame that cannot move stays, else the one that counted most.
/// A page that is to move counts no longer for the next one's color. Each comes with the frame that it leaves.
fn part(tuples: &[Tuple], above: u64, colors: u64, target: &mut Target) -> Vec<(u64, Colored)> {
    let hot: Vec<&Tuple> = tuples.iter().filter(|tuple| tuple.count > above).collect();
    let colored: Vec<_> = hot.iter().map(|tuple| (tuple.frame, tuple.frame % colors)).collect();
    let conflicts = shared_colors(&colored, colors);
    let mut moves: Vec<(u64, Colored)> = Vec::new();
    for &color in &conflicts {
        let of_it = || hot.iter().filter(|tuple| tuple.frame % colors == color);
        let mut movable: Vec<Tuple> =
            of_it().map(|tuple| **tuple).filter(|tuple| tuple.page.is_some()).collect();
        // A stable sort: of equals, the first one in the list comes first.
        movable.sort_by_key(|tuple| std::cmp::Reverse(tuple.count));
        let stay = if of_it().any(|tuple| tuple.page.is_none()) { 0 } else { 1 };
        for Tuple { frame, page, .. } in movable.into_iter().skip(stay) {
            let stays = |of: &&Tuple| !moves.iter().any(|(moved, _)| *moved == of.frame);
            let misses = |color| {
                let of_it = tuples.iter().filter(stays).filter(|of| of.frame % colors == color);
                of_it.map(|of| of.count).sum()
            };
            let misses: Vec<u64> = (0..colors).map(misses).collect();
            let Some(color) = target.next(&conflicts, &misses) else { return moves };
            moves.push((frame, (page.unwrap(), color)));
        }
    }
    moves
}
