//! Sets of lines of any number, for a cache whose lines have no more [words](super::short_lines). Slow.

use super::{Entered, Oldest, Uses};
use crate::Requester;

/// Sets of lines, from the latest to the oldest, each with its dirt.
#[derive(Clone, Debug)]
pub(super) struct AnyLines {
    pub ways: usize,
    pub sets: Vec<Vec<(u64, bool)>>,
}

impl AnyLines {
    fn place(&self, set: usize, line: u64) -> Option<usize> {
        self.sets[set].iter().position(|&(held, _)| held == line)
    }

    pub fn touch(&mut self, set: usize, line: u64, soils: bool) -> bool {
        let Some(place) = self.place(set, line) else { return false };
        let lines = &mut self.sets[set];
        lines[..=place].rotate_right(1);
        lines[0].1 |= soils;
        true
    }

    pub fn fill(&mut self, set: usize, line: u64, dirty: bool) -> Oldest {
        let lines = &mut self.sets[set];
        lines.insert(0, (line, dirty));
        let left = if lines.len() > self.ways { lines.pop() } else { None };
        left.map_or(Oldest::NONE, |(line, dirty)| Oldest::of(line, dirty))
    }

    pub fn enter(&mut self, set: usize, line: u64, soils: bool) -> Entered {
        if self.touch(set, line, soils) {
            Entered::Held
        } else {
            Entered::Filled(self.fill(set, line, soils))
        }
    }

    /// `lines`: each with its set.
    pub fn use_while_held(
        &mut self,
        lines: impl Iterator<Item = (usize, u64, Option<Requester>)>,
        hits: &mut Uses,
    ) -> usize {
        let mut used = 0;
        for (set, line, by) in lines {
            let held = if by.is_some() { self.touch(set, line, false) } else { self.soil(set, line) };
            if !held {
                break;
            }
            by.into_iter().for_each(|by| hits[by as usize] += 1);
            used += 1;
        }
        used
    }

    pub fn oldest(&self, set: usize) -> Oldest {
        let lines = &self.sets[set];
        let last = lines.last().filter(|_| lines.len() == self.ways);
        last.map_or(Oldest::NONE, |&(line, dirty)| Oldest::of(line, dirty))
    }

    pub fn give(&mut self, set: usize, line: u64) -> Option<bool> {
        let place = self.place(set, line)?;
        Some(self.sets[set].remove(place).1)
    }

    pub fn soil(&mut self, set: usize, line: u64) -> bool {
        let place = self.place(set, line);
        place.into_iter().for_each(|place| self.sets[set][place].1 = true);
        place.is_some()
    }
}
