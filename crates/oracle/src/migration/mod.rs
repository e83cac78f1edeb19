//! Policies that move pages to other colors, as slow models. They see the TLBs' contents as a list.

mod active;
mod cap;
mod cml;
mod periodic;
mod snapshot;

pub use active::Active;
pub use cap::Capped;
pub use cml::{Cml, CmlList};
pub use periodic::Periodic;
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
    Coldest,
    /// The first from a random color on.
    Random,
}

/// Chooses target colors.
#[derive(Clone, Debug)]
pub struct Target {
    choice: TargetChoice,
    draws: Draws,
    last: Option<u64>,
}

impl Target {
    /// Targets chosen so.
    pub fn new(choice: TargetChoice, draws: Draws) -> Target {
        Target { choice, draws, last: None }
    }

    /// The color for the next move. `misses`: by color.
    pub fn next(&mut self, excluded: &[u64], misses: &[u64]) -> Option<u64> {
        let colors = misses.len() as u64;
        let start = match self.choice {
            TargetChoice::Random => self.draws.below(colors),
            TargetChoice::Sequential | TargetChoice::Coldest => self.last.map_or(0, |last| last + 1),
        };
        let in_turn = (start..start + colors).map(|color| color % colors);
        let mut allowed: Vec<u64> = in_turn.filter(|color| !excluded.contains(color)).collect();
        if self.choice == TargetChoice::Coldest {
            let fewest = allowed.iter().map(|&color| misses[color as usize]).min()?;
            allowed.retain(|&color| misses[color as usize] == fewest);
        }
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
