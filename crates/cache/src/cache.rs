//! One cache: its lines, and which of them are dirty.

use crate::recent_lines::{Need, RecentLines};
use crate::slots::Slots;
use crate::stack::{Entered, LruStack};
use crate::write_buffer::WriteBuffer;
use crate::{AddressUsed, CacheAddress, CacheCounts, CacheFills, CacheSpec, Requester};

/// What a cache holds.
#[derive(Clone, Debug)]
enum Contents {
    /// In order of use: the plain case.
    InOrder(LruStack),
    InSlots(Box<Slots>),
}

impl Contents {
    fn new(spec: &CacheSpec) -> Contents {
        if spec.is_in_order() {
            Contents::InOrder(LruStack::new(spec))
        } else {
            Contents::InSlots(Box::new(Slots::new(spec)))
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Cache {
    contents: Contents,
    /// Lines that repeat: see [`Cache::repeats`].
    pub recent: RecentLines,
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
        Cache {
            contents: Contents::new(spec),
            recent: RecentLines::new(spec),
            line_shift: spec.line_shift,
            address: spec.address,
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

    /// The lines of these bytes, at most two, if each is the one used last in its set: another hit changes only counts.
    /// Else 0.
    #[inline(always)]
    pub fn repeats(&self, address: CacheAddress, bytes: u64, need: Need) -> u64 {
        let start = address.line(self.address, 0);
        let first = start >> self.line_shift;
        let last = (start + bytes.saturating_sub(1)) >> self.line_shift;
        if !self.recent.has(first, need) {
            return 0;
        }
        match last - first {
            0 => 1,
            1 if self.recent.has(last, need) => 2,
            _ => 0,
        }
    }

    /// Counts a lookup.
    #[inline]
    pub fn count(&mut self, requester: Requester, look: Look) {
        let counts = &mut self.counts[requester as usize];
        counts.lookups += 1;
        counts.hits += u64::from(look != Look::Miss);
        counts.slow_hits += u64::from(look == Look::SlowHit);
    }

    /// Looks a line up; a hit makes it dirty if the access `soils` it.
    #[inline]
    pub fn touch(&mut self, address: CacheAddress, soils: bool) -> Look {
        let line = self.line(address);
        let look = match &mut self.contents {
            Contents::InOrder(stack) => {
                if stack.touch(line, soils) {
                    Look::Hit
                } else {
                    Look::Miss
                }
            }
            Contents::InSlots(slots) => slots.touch(line, soils),
        };
        if look != Look::Miss {
            self.recent.note(line, soils);
        }
        look
    }

    /// Puts a missing line in; returns the one that it evicts.
    #[inline]
    pub fn fill(&mut self, address: CacheAddress, dirty: bool) -> Option<Evicted> {
        let (line, shift) = (self.line(address), self.line_shift);
        self.recent.note(line, dirty);
        match &mut self.contents {
            Contents::InOrder(stack) => {
                let (line, dirty) = stack.fill(line, dirty)?;
                Some(Evicted { address: CacheAddress::same(line << shift), dirty })
            }
            Contents::InSlots(slots) => slots.fill(line, address, dirty),
        }
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
    #[inline]
    pub fn give(&mut self, address: CacheAddress) -> Option<bool> {
        let line = self.line(address);
        self.recent.forget(line);
        match &mut self.contents {
            Contents::InOrder(stack) => stack.give(line),
            Contents::InSlots(slots) => slots.give(line),
        }
    }

    /// Makes a line dirty if it is here; returns whether it is. That is no use for the replacement policy.
    pub fn soil(&mut self, address: CacheAddress) -> bool {
        let line = self.line(address);
        match &mut self.contents {
            Contents::InOrder(stack) => stack.soil(line),
            Contents::InSlots(slots) => slots.soil(line),
        }
    }

    /// Fills so far, if it is shared and inclusive.
    pub fn fills(&self) -> u64 {
        match &self.contents {
            Contents::InOrder(_) => 0,
            Contents::InSlots(slots) => slots.fills,
        }
    }

    /// Whether it has held a line since before its next fill after so many, if it is shared and inclusive.
    pub fn has_held(&self, address: CacheAddress, fills: u64) -> bool {
        match &self.contents {
            Contents::InOrder(_) => false,
            Contents::InSlots(slots) => slots.has_held(self.line(address), fills),
        }
    }

    /// The addresses of its lines' first bytes.
    pub fn addresses(&self) -> Box<dyn Iterator<Item = CacheAddress> + '_> {
        let shift = self.line_shift;
        match &self.contents {
            Contents::InOrder(stack) => {
                Box::new(stack.all().into_iter().map(move |line| CacheAddress::same(line << shift)))
            }
            Contents::InSlots(slots) => Box::new(slots.all().filter_map(|line| slots.address_of(line))),
        }
    }
}

/// Caches whose lines are in order of use, by lines.
impl Cache {
    /// # Panics
    /// If its lines are in slots.
    #[inline(always)]
    fn in_order(&mut self) -> &mut LruStack {
        match &mut self.contents {
            Contents::InOrder(stack) => stack,
            Contents::InSlots(_) => panic!("a path with steps has no slots"),
        }
    }

    /// Looks a line up, and puts it in if it is missing.
    #[inline(always)]
    pub fn enter(&mut self, line: u64, soils: bool) -> Entered {
        self.recent.note(line, soils);
        self.in_order().enter(line, soils)
    }

    /// Looks a line up.
    #[inline(always)]
    pub fn use_line(&mut self, line: u64) -> bool {
        let hit = self.in_order().touch(line, false);
        if hit {
            self.recent.note(line, false);
        }
        hit
    }

    /// [`Cache::give`].
    #[inline(always)]
    pub fn give_line(&mut self, line: u64) -> Option<bool> {
        self.recent.forget(line);
        self.in_order().give(line)
    }

    /// Makes a line dirty that is the latest of its set.
    pub fn soil_latest(&mut self, line: u64) {
        self.in_order().soil_latest(line);
    }
}
