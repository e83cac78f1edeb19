//! Parts of a hierarchy that share no line.
//!
//! Within a slice, the lowest bits of a line's number choose its set. So lines whose numbers end differently never meet
//! in any cache, whatever evicts them. The sets of lines that end alike are a small hierarchy of their own: a part.

use super::{CacheCounts, Hierarchy};
use crate::Requester;
use crate::cache::Cache;
use crate::stack::LruStack;

/// The parts of a hierarchy.
#[derive(Clone, Copy, Debug)]
pub struct Parts {
    line_shift: u32,
    /// A power of two.
    count: usize,
}

/// The lines that a part holds.
pub struct PartLines {
    part: usize,
    of: Parts,
    /// By cache.
    sets: Vec<LruStack>,
}

/// The counts of a hierarchy, by cache and requester.
#[derive(Clone, Debug, Default)]
pub struct HierarchyCounts(pub(super) Vec<[CacheCounts; Requester::ALL.len()]>);

impl HierarchyCounts {
    /// Adds those of another hierarchy of the same caches.
    pub fn add(&mut self, other: &HierarchyCounts) {
        self.0.resize(self.0.len().max(other.0.len()), Default::default());
        let pairs = self.0.iter_mut().zip(&other.0);
        pairs.for_each(|(own, other)| own.iter_mut().zip(other).for_each(|(own, other)| own.add(*other)));
    }
}

impl Parts {
    /// How many there are.
    pub fn count(self) -> usize {
        self.count
    }

    /// The part that holds the line of a physical address.
    #[inline(always)]
    pub fn of(self, address: u64) -> usize {
        (address >> self.line_shift) as usize & (self.count - 1)
    }
}

impl Hierarchy {
    /// Its parts, if all caches have lines of one length in order of use, and do not write through.
    pub fn parts(&self) -> Option<Parts> {
        let is_plain = self.paths.iter().all(|path| !path.steps.is_empty());
        let sets = self.caches.iter().map(|cache| Some(cache.in_order()?.sets_of_slice()));
        let least = sets.collect::<Option<Vec<usize>>>()?.into_iter().min()?;
        is_plain.then_some(Parts { line_shift: self.least_line_shift, count: least })
    }

    /// The lines that a part holds.
    ///
    /// # Panics
    /// If the hierarchy has no parts.
    pub fn part(&self, part: usize, of: Parts) -> PartLines {
        let sets = |cache: &Cache| cache.in_order().expect("it has parts").sets_of_part(part, of.count);
        PartLines { part, of, sets: self.caches.iter().map(sets).collect() }
    }

    /// Sets the lines of a part to those of another hierarchy of the same caches.
    ///
    /// # Panics
    /// As [`Hierarchy::part`], or if the caches differ.
    pub fn set_part(&mut self, lines: &PartLines) {
        let PartLines { part, of, sets } = lines;
        for (cache, sets) in self.caches.iter_mut().zip(sets) {
            cache.in_order_mut().expect("it has parts").set_part(*part, of.count, sets);
            cache.recent.forget_all();
        }
    }

    /// Whether a part's contents are another's.
    ///
    /// # Panics
    /// As [`Hierarchy::set_part`].
    pub fn has_part_of(&self, other: &Hierarchy, part: usize, parts: Parts) -> bool {
        self.caches.iter().zip(&other.caches).all(|(cache, other)| {
            let (own, other) = (cache.in_order(), other.in_order());
            own.expect("it has parts").has_sets_of(other.expect("it has parts"), part, parts.count)
        })
    }

    /// Takes all counts, which are zero then.
    pub fn take_counts(&mut self) -> HierarchyCounts {
        let all =
            (0..self.caches.len()).map(|index| Requester::ALL.map(|by| self.counts(index, by))).collect();
        for cache in &mut self.caches {
            (cache.counts, cache.recent.repeats) = Default::default();
        }
        HierarchyCounts(all)
    }

    /// Adds the counts of another hierarchy of the same caches.
    pub fn add_counts(&mut self, counts: &HierarchyCounts) {
        for (cache, counts) in self.caches.iter_mut().zip(&counts.0) {
            cache.counts.iter_mut().zip(counts).for_each(|(own, other)| own.add(*other));
        }
    }
}
