//! Memory that is backed and never touched, life by life.

use std::collections::BTreeSet;

/// Pages that were backed for nothing from one time to another, both included.
#[derive(Clone, Copy, Debug)]
pub struct Life {
    /// When they were backed.
    pub born: u64,
    /// When they were so last.
    pub died: u64,
    /// How many they are.
    pub pages: u64,
}

/// Most pages that lived at one time.
pub fn most_at_once(lives: &[Life]) -> u64 {
    let births: BTreeSet<u64> = lives.iter().map(|life| life.born).collect();
    let at = |time: u64| lives.iter().filter(move |life| (life.born..=life.died).contains(&time));
    births.into_iter().map(|time| at(time).map(|life| life.pages).sum()).max().unwrap_or(0)
}
