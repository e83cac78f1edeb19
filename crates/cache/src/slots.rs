//! The lines of a cache in slots, with what is known of each: for any policy and organisation.
//!
//! The line touched last in a set stands apart, in `latest`: another hit of it changes only counts. That is exact for
//! policies that need not see each hit ([`Replacement::relevant_hits`](pagewalk_setassoc::Replacement::relevant_hits));
//! for others, and where a hash picks slices, nothing is noted there.

use crate::cache::{Evicted, Look};
use crate::column::Filled;
use crate::lines::Lines;
use crate::{AddressUsed, CacheAddress, CacheOrganisation, CacheSpec};
use pagewalk_setassoc::RelevantHits;

/// Marks an empty place in `latest`: no line has this number.
const NONE: u64 = u64::MAX;

/// Set in `latest` if the line is dirty, so that a store changes only counts. Lines have smaller numbers.
const DIRTY: u64 = 1 << 63;

#[derive(Clone, Debug)]
pub(crate) struct Slots {
    lines: Lines,
    /// Whether only the line used last in its set hits fast.
    is_pseudo: bool,
    /// By set: the line touched or filled last.
    latest: Vec<u64>,
    /// Whether the policy needs no repeated hits, and plain bits choose sets.
    notes_latest: bool,
    /// By slot of the array: whether the line was stored to and not yet written back.
    dirty: Vec<bool>,
    /// By slot, if virtual addresses find lines: the line's physical address when it was filled.
    homes: Vec<u64>,
    /// By slot, if it is shared and inclusive: the number of the fill that put the line there, from 1 on.
    filled: Vec<u64>,
    /// Fills so far, if it is shared and inclusive.
    pub fills: u64,
    line_shift: u32,
}

impl Slots {
    pub fn new(spec: &CacheSpec) -> Slots {
        let lines = Lines::new(spec);
        let (sets, slots) = lines.shape();
        let is_virtual = spec.address == AddressUsed::Virtual;
        Slots {
            latest: vec![NONE; sets],
            notes_latest: spec.replacement.relevant_hits() != RelevantHits::Each && spec.slices == 1,
            dirty: vec![false; slots],
            homes: vec![0; if is_virtual { slots } else { 0 }],
            filled: vec![0; if spec.shared && spec.inclusive { slots } else { 0 }],
            fills: 0,
            line_shift: spec.line_shift,
            lines,
            is_pseudo: matches!(spec.organisation, CacheOrganisation::Pseudo { .. }),
        }
    }

    /// The set of a line, if plain bits choose it. The number of sets is a power of two.
    #[inline]
    fn set(&self, line: u64) -> usize {
        line as usize & (self.latest.len() - 1)
    }

    /// Whether another access changes nothing. `soils`: it is a store that ends here.
    #[inline]
    fn repeats(&self, line: u64, soils: bool) -> bool {
        let latest = self.latest[self.set(line)];
        if soils { latest == line | DIRTY } else { latest & !DIRTY == line }
    }

    /// Looks a line up; a hit makes it dirty if the access `soils` it.
    pub fn touch(&mut self, line: u64, soils: bool) -> Look {
        if self.repeats(line, soils) {
            return Look::Hit;
        }
        let Some((slot, swapped)) = self.lines.touch(line) else { return Look::Miss };
        let was_latest = self.latest[self.set(line)] & !DIRTY == line;
        if let Some(other) = swapped {
            self.dirty.swap(slot, other);
            if !self.filled.is_empty() {
                self.filled.swap(slot, other);
            }
            if !self.homes.is_empty() {
                self.homes.swap(slot, other);
            }
        }
        if soils {
            self.dirty[slot] = true;
        }
        self.note(line, soils);
        if swapped.is_some() || self.is_pseudo && !was_latest { Look::SlowHit } else { Look::Hit }
    }

    /// Puts a missing line in; returns the one that it evicts.
    pub fn fill(&mut self, line: u64, address: CacheAddress, dirty: bool) -> Option<Evicted> {
        let Filled { slot, evicted, moved_to } = self.lines.insert(line);
        let evicted = evicted.map(|(line, slot)| self.leaving(line, slot));
        if let Some(other) = moved_to {
            self.dirty[other] = self.dirty[slot];
            if !self.homes.is_empty() {
                self.homes[other] = self.homes[slot];
            }
        }
        self.dirty[slot] = dirty;
        if !self.filled.is_empty() {
            self.number_fill(slot, moved_to);
        }
        if let Some(home) = self.homes.get_mut(slot) {
            *home = address.physical >> self.line_shift << self.line_shift;
        }
        self.note(line, dirty);
        evicted
    }

    /// Gives a line up; returns whether it was dirty, if it was there.
    pub fn give(&mut self, line: u64) -> Option<bool> {
        let slot = self.lines.slot_of(line)?;
        self.lines.remove(line, slot);
        let set = self.set(line);
        if self.latest[set] & !DIRTY == line {
            self.latest[set] = NONE;
        }
        Some(self.dirty[slot])
    }

    /// Makes a line dirty if it is here; returns whether it is. That is no use for the replacement policy.
    pub fn soil(&mut self, line: u64) -> bool {
        let slot = self.lines.slot_of(line);
        if let Some(slot) = slot {
            self.dirty[slot] = true;
        }
        slot.is_some()
    }

    fn number_fill(&mut self, slot: usize, moved_to: Option<usize>) {
        if let Some(other) = moved_to {
            self.filled[other] = self.filled[slot];
        }
        self.fills += 1;
        self.filled[slot] = self.fills;
    }

    /// Whether it has held a line since before its next fill after so many.
    pub fn has_held(&self, line: u64, fills: u64) -> bool {
        self.lines.slot_of(line).is_some_and(|slot| self.filled[slot] <= fills)
    }

    /// All lines.
    pub fn all(&self) -> Box<dyn Iterator<Item = u64> + '_> {
        self.lines.all()
    }

    /// The address of a line that is here.
    pub fn address_of(&self, line: u64) -> Option<CacheAddress> {
        Some(self.leaving(line, self.lines.slot_of(line)?).address)
    }

    fn leaving(&self, line: u64, slot: usize) -> Evicted {
        let own = line << self.line_shift;
        let physical = self.homes.get(slot).copied().unwrap_or(own);
        Evicted { address: CacheAddress { physical, logical: own }, dirty: self.dirty[slot] }
    }

    #[inline]
    fn note(&mut self, line: u64, dirty: bool) {
        if self.notes_latest {
            let set = self.set(line);
            self.latest[set] = line | if dirty { DIRTY } else { 0 };
            if let Some(other) = self.lines.other_set(set) {
                self.latest[other] = NONE;
            }
        }
    }
}
