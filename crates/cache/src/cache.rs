//! One cache: its lines, and which of them are dirty.

use crate::slots::Slots;
use crate::stack::LruStack;
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
    pub line_shift: u32,
    address: AddressUsed,
    pub latency: u64,
    pub slow_latency: u64,
    pub counts: [CacheCounts; Requester::ALL.len()],
    /// By requester: hits that changed nothing else, beyond `counts`.
    pub repeats: [u64; Requester::ALL.len()],
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
            line_shift: spec.line_shift,
            address: spec.address,
            latency: spec.latency,
            slow_latency: spec.slow_latency().unwrap_or(spec.latency),
            counts: Default::default(),
            repeats: Default::default(),
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

    /// Its lines in order of use, if that is all that it holds.
    #[inline(always)]
    pub fn in_order(&mut self) -> Option<&mut LruStack> {
        match &mut self.contents {
            Contents::InOrder(stack) => Some(stack),
            Contents::InSlots(_) => None,
        }
    }

    /// Whether an access to these bytes is another hit of the line used last in its set, which changes only counts.
    #[inline(always)]
    pub fn repeats(&self, address: CacheAddress, bytes: u64, soils: bool) -> bool {
        let start = address.line(self.address, 0);
        let line = start >> self.line_shift;
        (start + bytes.saturating_sub(1)) >> self.line_shift == line
            && match &self.contents {
                Contents::InOrder(stack) => stack.repeats(line, soils),
                Contents::InSlots(slots) => slots.repeats(line, soils),
            }
    }

    /// Whether an access to the line used last in its set always [repeats](Cache::repeats).
    pub fn notes_latest(&self) -> bool {
        match &self.contents {
            Contents::InOrder(_) => true,
            Contents::InSlots(slots) => slots.notes_latest,
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
        match &mut self.contents {
            Contents::InOrder(stack) => {
                if stack.touch(line, soils) {
                    Look::Hit
                } else {
                    Look::Miss
                }
            }
            Contents::InSlots(slots) => slots.touch(line, soils),
        }
    }

    /// Puts a missing line in; returns the one that it evicts.
    #[inline]
    pub fn fill(&mut self, address: CacheAddress, dirty: bool) -> Option<Evicted> {
        let (line, shift) = (self.line(address), self.line_shift);
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
