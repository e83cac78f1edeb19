//! Lives of pages that are backed and never touched.

use std::collections::BTreeSet;

/// Untouched pages that were backed from one time to another, inclusive.
#[derive(Clone, Copy, Debug)]
pub struct Life {
    /// The time of backing.
    pub born: u64,
    /// The last time at which they were backed and untouched.
    pub died: u64,
    /// Number of pages.
    pub pages: u64,
}

/// The maximum number of pages that lived at the same time.
pub fn most_at_once(lives: &[Life]) -> u64 {
    let births: BTreeSet<u64> = lives.iter().map(|life| life.born).collect();
    let at = |time: u64| lives.iter().filter(move |life| (life.born..=life.died).contains(&time));
    births.into_iter().map(|time| at(time).map(|life| life.pages).sum()).max().unwrap_or(0)
}
