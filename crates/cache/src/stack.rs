//! The lines of a cache with least-recently-used replacement, in each set from the latest to the oldest.
//!
//! A hit moves its line to the front, and a fill drops the last one: the order is all the state there is, and most hits
//! are among the first. Source: Mattson, Gecsei, Slutz, Traiger, "Evaluation Techniques for Storage Hierarchies", IBM
//! Systems Journal 9 (2), 1970. Sets of many ways would be searched too long: see [`LruStack::WAYS_MAX`].

use crate::CacheSpec;
use crate::slices::Slices;

/// Marks an empty place; no line has this number, with or without [`DIRTY`].
const EMPTY: u64 = u64::MAX;

/// Set in a place if the line was stored to and not yet written back. Lines have smaller numbers.
const DIRTY: u64 = 1 << 63;

/// Sets of lines in order of use; empty places come last.
#[derive(Clone, Debug)]
pub(crate) struct LruStack {
    ways: usize,
    mask: u64,
    slices: Slices,
    places: Vec<u64>,
}

impl LruStack {
    /// The largest set that is searched in order.
    pub const WAYS_MAX: usize = 32;

    /// An empty stack of a checked cache.
    pub fn new(spec: &CacheSpec) -> LruStack {
        let geometry = Slices::geometry(spec).expect("checked");
        LruStack {
            ways: geometry.ways(),
            mask: geometry.sets() as u64 - 1,
            slices: Slices::new(spec),
            places: vec![EMPTY; geometry.entries()],
        }
    }

    #[inline]
    fn start(&self, line: u64) -> usize {
        (self.slices.number(line) & self.mask) as usize * self.ways
    }

    #[inline]
    fn set(&mut self, line: u64) -> &mut [u64] {
        let start = self.start(line);
        &mut self.places[start..start + self.ways]
    }

    /// Looks a line up; a hit makes it the latest, and dirty if the access `soils` it.
    #[inline]
    pub fn touch(&mut self, line: u64, soils: bool) -> bool {
        let soiled = if soils { DIRTY } else { 0 };
        let set = self.set(line);
        if set[0] & !DIRTY == line {
            set[0] |= soiled;
            return true;
        }
        let Some(way) = position(set, line) else { return false };
        let mut carried = set[way] | soiled;
        set[..=way].iter_mut().for_each(|place| std::mem::swap(place, &mut carried));
        true
    }

    /// Puts a missing line in; returns the oldest if the set was full, and whether that was dirty.
    #[inline]
    pub fn fill(&mut self, line: u64, dirty: bool) -> Option<(u64, bool)> {
        let mut carried = line | if dirty { DIRTY } else { 0 };
        self.set(line).iter_mut().for_each(|place| std::mem::swap(place, &mut carried));
        (carried != EMPTY).then_some((carried & !DIRTY, carried & DIRTY != 0))
    }

    /// Gives a line up; returns whether it was dirty, if it was there.
    #[inline]
    pub fn give(&mut self, line: u64) -> Option<bool> {
        let set = self.set(line);
        let way = position(set, line)?;
        let mut carried = EMPTY;
        set[way..].iter_mut().rev().for_each(|place| std::mem::swap(place, &mut carried));
        Some(carried & DIRTY != 0)
    }

    /// Makes a line dirty if it is here; returns whether it is. That is no use.
    pub fn soil(&mut self, line: u64) -> bool {
        let set = self.set(line);
        let way = position(set, line);
        if let Some(way) = way {
            set[way] |= DIRTY;
        }
        way.is_some()
    }

    /// All lines.
    pub fn all(&self) -> impl Iterator<Item = u64> + '_ {
        self.places.iter().filter(|&&place| place != EMPTY).map(|place| place & !DIRTY)
    }
}

#[inline]
fn position(set: &[u64], line: u64) -> Option<usize> {
    set.iter().position(|place| place & !DIRTY == line)
}
