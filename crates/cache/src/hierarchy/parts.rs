//! Parts of a hierarchy that share no line.
//!
//! Within a slice, the lowest bits of a line's number choose its set. So lines whose numbers end differently never meet
//! in any cache, whatever evicts them. The sets of lines that end alike are a small hierarchy of their own: a part.

use super::Hierarchy;

/// The parts of a hierarchy.
#[derive(Clone, Copy, Debug)]
pub struct Parts {
    line_shift: u32,
    /// A power of two.
    count: usize,
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

    /// Takes a part's contents from another hierarchy of the same caches.
    ///
    /// # Panics
    /// If one of them has no parts, or they differ in their caches.
    pub fn copy_part(&mut self, from: &Hierarchy, part: usize, parts: Parts) {
        for (cache, from) in self.caches.iter_mut().zip(&from.caches) {
            let from = from.in_order().expect("it has parts");
            cache.in_order_mut().expect("it has parts").copy_sets(from, part, parts.count);
            cache.recent.forget_all();
        }
    }

    /// Whether a part's contents are another's.
    ///
    /// # Panics
    /// As [`Hierarchy::copy_part`].
    pub fn has_part_of(&self, other: &Hierarchy, part: usize, parts: Parts) -> bool {
        self.caches.iter().zip(&other.caches).all(|(cache, other)| {
            let (own, other) = (cache.in_order(), other.in_order());
            own.expect("it has parts").has_sets_of(other.expect("it has parts"), part, parts.count)
        })
    }

    /// Adds the counts of another hierarchy of the same caches.
    pub fn add_counts(&mut self, other: &Hierarchy) {
        for (cache, other) in self.caches.iter_mut().zip(&other.caches) {
            for by in 0..cache.counts.len() {
                cache.counts[by].add(other.counts[by]);
                cache.recent.repeats[by] += other.recent.repeats[by];
            }
        }
    }

    /// Sets all counts to zero.
    pub fn clear_counts(&mut self) {
        for cache in &mut self.caches {
            (cache.counts, cache.recent.repeats) = Default::default();
        }
    }
}
