//! One cache: its lines, and which of them are dirty.
//!
//! The line touched last in a set stands apart, in `latest`: another hit of it changes only counts, so most accesses
//! compare one number. That is exact for policies that need not see each hit
//! ([`Replacement::relevant_hits`](pagewalk_setassoc::Replacement::relevant_hits)); for others nothing is noted there.

use crate::slices::Slices;
use crate::{AddressUsed, CacheAddress, CacheCounts, CacheFills, CacheSpec, Requester};
use pagewalk_setassoc::{RelevantHits, SetArray};

/// Marks an empty place in `latest`: no line has this number.
const NONE: u64 = u64::MAX;

/// Set in `latest` if the line is dirty, so that a store changes only counts. Lines have smaller numbers.
const DIRTY: u64 = 1 << 63;

#[derive(Clone, Debug)]
pub(crate) struct Cache {
    array: SetArray,
    /// By set: the line touched or filled last.
    latest: Vec<u64>,
    /// Whether repeated hits of the same line change the state of the replacement policy.
    repeats_matter: bool,
    /// By slot of the array: whether the line was stored to and not yet written back.
    dirty: Vec<bool>,
    /// By slot, if virtual addresses find lines: the line's physical address when it was filled.
    homes: Vec<u64>,
    line_shift: u32,
    slices: Slices,
    address: AddressUsed,
    pub latency: u64,
    pub counts: [CacheCounts; Requester::ALL.len()],
    pub shared: bool,
    /// By requester: whether it looks accesses up without ever ending one.
    pub passes_on: [bool; Requester::ALL.len()],
    pub holds_victims: bool,
    /// Whether its lines may be dirty: stores end here.
    pub may_be_dirty: bool,
}

/// A line that left a cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Evicted {
    /// The address of its first byte. Of a cache that physical addresses find lines in, only the physical one counts.
    pub address: CacheAddress,
    pub dirty: bool,
}

impl Cache {
    pub fn new(spec: &CacheSpec) -> Cache {
        let array = spec.array();
        let slots = array.geometry().entries();
        let is_virtual = spec.address == AddressUsed::Virtual;
        Cache {
            latest: vec![NONE; array.geometry().sets()],
            repeats_matter: spec.replacement.relevant_hits() == RelevantHits::Each,
            dirty: vec![false; slots],
            homes: vec![0; if is_virtual { slots } else { 0 }],
            line_shift: spec.line_shift,
            slices: Slices::new(spec),
            address: spec.address,
            array,
            latency: spec.latency,
            counts: Default::default(),
            shared: spec.shared,
            passes_on: Requester::ALL.map(|requester| spec.passes_on(requester)),
            holds_victims: spec.fills == CacheFills::Victims,
            may_be_dirty: spec.may_be_dirty(),
        }
    }

    #[inline]
    fn line(&self, address: CacheAddress) -> u64 {
        address.line(self.address, self.line_shift)
    }

    /// The set of a line. The number of sets is a power of two.
    #[inline]
    fn set(&self, line: u64) -> usize {
        self.slices.number(line) as usize & (self.latest.len() - 1)
    }

    /// Whether another access changes only counts. `soils`: it is a store that ends here.
    #[inline]
    pub fn repeats(&self, address: CacheAddress, soils: bool) -> bool {
        let line = self.line(address);
        let latest = self.latest[self.set(line)];
        if soils { latest == line | DIRTY } else { latest & !DIRTY == line }
    }

    /// Looks a line up; a hit makes it dirty if the access `soils` it.
    #[inline]
    pub fn touch(&mut self, address: CacheAddress, soils: bool) -> bool {
        if self.repeats(address, soils) {
            return true;
        }
        let line = self.line(address);
        let Some(slot) = self.array.touch_slot(self.slices.number(line), line) else { return false };
        if soils {
            self.dirty[slot] = true;
        }
        self.note(line, soils);
        true
    }

    /// Puts a missing line in; returns the one that it evicts.
    pub fn fill(&mut self, address: CacheAddress, dirty: bool) -> Option<Evicted> {
        let line = self.line(address);
        let (slot, evicted) = self.array.insert_slot(self.slices.number(line), line);
        let evicted = evicted.map(|line| self.leaving(line, slot));
        self.dirty[slot] = dirty;
        if let Some(home) = self.homes.get_mut(slot) {
            *home = address.physical >> self.line_shift << self.line_shift;
        }
        self.note(line, dirty);
        evicted
    }

    /// Takes a line that another cache evicted; returns the one that leaves for it. Two caches may have evicted the
    /// same line.
    pub fn receive(&mut self, evicted: Evicted) -> Option<Evicted> {
        if self.touch(evicted.address, evicted.dirty) {
            None
        } else {
            self.fill(evicted.address, evicted.dirty)
        }
    }

    /// Gives a line up; returns whether it was dirty, if it was there.
    pub fn give(&mut self, address: CacheAddress) -> Option<bool> {
        let line = self.line(address);
        let slot = self.array.slot_of(self.slices.number(line), line)?;
        self.array.remove(self.slices.number(line), line);
        let set = self.set(line);
        if self.latest[set] & !DIRTY == line {
            self.latest[set] = NONE;
        }
        Some(self.dirty[slot])
    }

    /// Makes a line dirty if it is here; returns whether it is. That is no use for the replacement policy.
    pub fn soil(&mut self, address: CacheAddress) -> bool {
        let line = self.line(address);
        let slot = self.array.slot_of(self.slices.number(line), line);
        if let Some(slot) = slot {
            self.dirty[slot] = true;
        }
        slot.is_some()
    }

    fn leaving(&self, line: u64, slot: usize) -> Evicted {
        let own = line << self.line_shift;
        let physical = self.homes.get(slot).copied().unwrap_or(own);
        Evicted { address: CacheAddress { physical, logical: own }, dirty: self.dirty[slot] }
    }

    #[inline]
    fn note(&mut self, line: u64, dirty: bool) {
        if !self.repeats_matter {
            let set = self.set(line);
            self.latest[set] = line | if dirty { DIRTY } else { 0 };
        }
    }
}
