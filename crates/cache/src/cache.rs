//! One cache: its lines, and which of them are dirty.
//!
//! The line touched last in a set stands apart, in `latest`: another hit of it changes only counts, so most accesses
//! compare one number. That is exact for policies that need not see each hit
//! ([`Replacement::relevant_hits`](pagewalk_setassoc::Replacement::relevant_hits)); for others, and where a hash picks
//! slices, nothing is noted there.

use crate::column::Filled;
use crate::lines::Lines;
use crate::write_buffer::WriteBuffer;
use crate::{AddressUsed, CacheAddress, CacheCounts, CacheFills, CacheOrganisation, CacheSpec, Requester};
use pagewalk_setassoc::RelevantHits;

/// Marks an empty place in `latest`: no line has this number.
const NONE: u64 = u64::MAX;

/// Set in `latest` if the line is dirty, so that a store changes only counts. Lines have smaller numbers.
const DIRTY: u64 = 1 << 63;

// Many fields: the state of lines, and of the specification what accesses ask for.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
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
    fills: u64,
    pub line_shift: u32,
    address: AddressUsed,
    pub latency: u64,
    pub slow_latency: u64,
    pub counts: [CacheCounts; Requester::ALL.len()],
    pub shared: bool,
    /// By requester: whether it looks accesses up without ever ending one.
    pub passes_on: [bool; Requester::ALL.len()],
    pub holds_victims: bool,
    /// Where stores wait that it passes on.
    pub write_buffer: Option<Box<WriteBuffer>>,
    /// Whether its lines may be dirty: stores end here.
    pub may_be_dirty: bool,
}

/// What a lookup found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    Miss,
    Hit,
    /// A hit that takes the cache's slow latency.
    SlowHit,
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
        let lines = Lines::new(spec);
        let (sets, slots) = lines.shape();
        let is_virtual = spec.address == AddressUsed::Virtual;
        Cache {
            latest: vec![NONE; sets],
            notes_latest: spec.replacement.relevant_hits() != RelevantHits::Each && spec.slices == 1,
            dirty: vec![false; slots],
            homes: vec![0; if is_virtual { slots } else { 0 }],
            filled: vec![0; if spec.shared && spec.inclusive { slots } else { 0 }],
            fills: 0,
            line_shift: spec.line_shift,
            address: spec.address,
            lines,
            is_pseudo: matches!(spec.organisation, CacheOrganisation::Pseudo { .. }),
            latency: spec.latency,
            slow_latency: spec.slow_latency().unwrap_or(spec.latency),
            counts: Default::default(),
            shared: spec.shared,
            passes_on: Requester::ALL.map(|requester| spec.passes_on(requester)),
            holds_victims: spec.fills == CacheFills::Victims,
            write_buffer: spec.write_buffer.map(|spec| Box::new(WriteBuffer::new(spec))),
            may_be_dirty: spec.may_be_dirty(),
        }
    }

    #[inline]
    fn line(&self, address: CacheAddress) -> u64 {
        address.line(self.address, self.line_shift)
    }

    /// The set of a line, if plain bits choose it. The number of sets is a power of two.
    #[inline]
    fn set(&self, line: u64) -> usize {
        line as usize & (self.latest.len() - 1)
    }

    /// Whether another access changes only counts. `soils`: it is a store that ends here.
    #[inline]
    pub fn repeats(&self, address: CacheAddress, soils: bool) -> bool {
        let line = self.line(address);
        let latest = self.latest[self.set(line)];
        if soils { latest == line | DIRTY } else { latest & !DIRTY == line }
    }

    /// Whether another access to the line touched last repeats.
    pub fn notes_latest(&self) -> bool {
        self.notes_latest
    }

    /// Looks a line up; a hit makes it dirty if the access `soils` it.
    #[inline]
    pub fn touch(&mut self, address: CacheAddress, soils: bool) -> Look {
        if self.repeats(address, soils) { Look::Hit } else { self.look_up(address, soils) }
    }

    fn look_up(&mut self, address: CacheAddress, soils: bool) -> Look {
        let line = self.line(address);
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
    pub fn fill(&mut self, address: CacheAddress, dirty: bool) -> Option<Evicted> {
        let line = self.line(address);
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

    /// Takes a line that another cache evicted; returns the one that leaves for it. Two caches may have evicted the
    /// same line.
    pub fn receive(&mut self, evicted: Evicted) -> Option<Evicted> {
        match self.touch(evicted.address, evicted.dirty) {
            Look::Miss => self.fill(evicted.address, evicted.dirty),
            Look::Hit | Look::SlowHit => None,
        }
    }

    /// Gives a line up; returns whether it was dirty, if it was there.
    pub fn give(&mut self, address: CacheAddress) -> Option<bool> {
        let line = self.line(address);
        let slot = self.lines.slot_of(line)?;
        self.lines.remove(line, slot);
        let set = self.set(line);
        if self.latest[set] & !DIRTY == line {
            self.latest[set] = NONE;
        }
        Some(self.dirty[slot])
    }

    /// Makes a line dirty if it is here; returns whether it is. That is no use for the replacement policy.
    pub fn soil(&mut self, address: CacheAddress) -> bool {
        let line = self.line(address);
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

    /// Fills so far, if it is shared and inclusive.
    pub fn fills(&self) -> u64 {
        self.fills
    }

    /// Whether it has held a line since before its next fill after so many.
    pub fn has_held(&self, address: CacheAddress, fills: u64) -> bool {
        self.lines.slot_of(self.line(address)).is_some_and(|slot| self.filled[slot] <= fills)
    }

    /// The addresses of its lines' first bytes.
    pub fn addresses(&self) -> impl Iterator<Item = CacheAddress> + '_ {
        self.lines.all().filter_map(|line| Some(self.leaving(line, self.lines.slot_of(line)?).address))
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
