//! The lines of one cache, in the array that its organisation asks for.

use crate::column::{Column, Filled};
use crate::slices::Slices;
use crate::{CacheOrganisation, CacheSpec};
use pagewalk_setassoc::SetArray;

#[derive(Clone, Debug)]
pub(crate) enum Lines {
    Sets { array: SetArray, slices: Slices },
    Column(Column),
}

impl Lines {
    /// An empty array.
    ///
    /// # Panics
    /// If [`check`](crate::check) refuses the cache.
    pub fn new(spec: &CacheSpec) -> Lines {
        if let CacheOrganisation::Column { .. } = spec.organisation {
            return Lines::Column(Column::new(spec.geometry.sets()));
        }
        let geometry = Slices::geometry(spec).expect("checked");
        let array = SetArray::new(geometry, spec.replacement).expect("checked");
        Lines::Sets { array, slices: Slices::new(spec) }
    }

    /// How many sets and slots there are.
    pub fn shape(&self) -> (usize, usize) {
        match self {
            Lines::Sets { array, .. } => (array.geometry().sets(), array.geometry().entries()),
            Lines::Column(column) => (column.lines(), column.lines()),
        }
    }

    /// The number whose lowest bits are a line's set.
    #[inline]
    pub fn number(&self, line: u64) -> u64 {
        match self {
            Lines::Sets { slices, .. } => slices.number(line),
            Lines::Column(_) => line,
        }
    }

    /// The set whose lines may move when this one's do.
    pub fn other_set(&self, set: usize) -> Option<usize> {
        match self {
            Lines::Sets { .. } => None,
            Lines::Column(column) => Some(column.other(set)),
        }
    }

    /// Looks a line up; returns its slot, and the slot that it swapped with.
    #[inline]
    pub fn touch(&mut self, line: u64) -> Option<(usize, Option<usize>)> {
        match self {
            Lines::Sets { array, slices } => Some((array.touch_slot(slices.number(line), line)?, None)),
            Lines::Column(column) => column.touch(line),
        }
    }

    /// Puts a missing line in.
    #[inline]
    pub fn insert(&mut self, line: u64) -> Filled {
        match self {
            Lines::Sets { array, slices } => {
                let (slot, evicted) = array.insert_slot(slices.number(line), line);
                Filled { slot, evicted: evicted.map(|line| (line, slot)), moved_to: None }
            }
            Lines::Column(column) => column.insert(line),
        }
    }

    /// All lines.
    pub fn all(&self) -> Box<dyn Iterator<Item = u64> + '_> {
        match self {
            Lines::Sets { array, .. } => Box::new(array.keys()),
            Lines::Column(column) => Box::new(column.all()),
        }
    }

    /// Where a line is.
    pub fn slot_of(&self, line: u64) -> Option<usize> {
        match self {
            Lines::Sets { array, slices } => array.slot_of(slices.number(line), line),
            Lines::Column(column) => column.slot_of(line),
        }
    }

    /// Takes a line out of its slot.
    pub fn remove(&mut self, line: u64, slot: usize) {
        match self {
            Lines::Sets { array, slices } => {
                array.remove(slices.number(line), line);
            }
            Lines::Column(column) => column.remove(slot),
        }
    }
}
