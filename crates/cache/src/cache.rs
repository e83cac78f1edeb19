//! One cache: its lines, and which of them are dirty.

use crate::lanes::{Lanes, Portable};
use crate::recent_lines::{Need, RecentLines};
use crate::slots::Slots;
use crate::stack::{Entered, LruStack};
use crate::stamps::StampedSets;
use crate::write_buffer::WriteBuffer;
use crate::{AddressUsed, CacheAddress, CacheCounts, CacheFills, CacheSpec, Requester};

/// What a cache holds.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "caches are few, and a stack is read at each access")]
enum Contents {
    /// By order of use: the plain case.
    InOrder(LruStack),
    /// The same, where most accesses hit.
    Stamped(StampedSets),
    InSlots(Box<Slots>),
}

impl Contents {
    fn new(spec: &CacheSpec) -> Contents {
        if StampedSets::suit(spec) {
            Contents::Stamped(StampedSets::new(spec))
        } else if spec.is_in_order() {
            Contents::InOrder(LruStack::new(spec))
        } else {
            Contents::InSlots(Box::new(Slots::new(spec)))
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Cache {
    contents: Contents,
    /// Lines that repeat, and counts of repeats: see [`Cache::repeats`].
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

impl Look {
    /// Of a cache without slow hits.
    pub fn of(hit: bool) -> Look {
        if hit { Look::Hit } else { Look::Miss }
    }
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

    /// The lines of these bytes, at most two, if each is the one used last in its set, or its times of use are kept:
    /// then another hit changes only counts and times, and is done. Else 0.
    #[inline(always)]
    pub fn repeats(&mut self, address: CacheAddress, bytes: u64, need: Need) -> u64 {
        let start = address.line(self.address, 0);
        let first = start >> self.line_shift;
        let last = (start + bytes.saturating_sub(1)) >> self.line_shift;
        if let Contents::Stamped(sets) = &mut self.contents {
            return sets.repeats(first, last, need.soils());
        }
        if !self.recent.has(first, need) {
            return 0;
        }
        match last - first {
            0 => 1,
            1 if self.recent.has(last, need) => 2,
            _ => 0,
        }
    }

    /// Whether another access to the line used last changes only counts or times.
    pub fn has_repeats(&self) -> bool {
        self.recent.is_used || matches!(self.contents, Contents::Stamped(_))
    }

    /// Its lines, if their times of use are kept.
    #[inline(always)]
    pub fn stamped(&mut self) -> Option<&mut StampedSets> {
        match &mut self.contents {
            Contents::Stamped(sets) => Some(sets),
            Contents::InOrder(_) | Contents::InSlots(_) => None,
        }
    }

    /// Its lines, if they are in order of use.
    pub fn in_order(&self) -> Option<&LruStack> {
        match &self.contents {
            Contents::InOrder(stack) => Some(stack),
            Contents::Stamped(_) | Contents::InSlots(_) => None,
        }
    }

    /// As [`Cache::in_order`].
    pub fn in_order_mut(&mut self) -> Option<&mut LruStack> {
        match &mut self.contents {
            Contents::InOrder(stack) => Some(stack),
            Contents::Stamped(_) | Contents::InSlots(_) => None,
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
            Contents::InOrder(stack) => Look::of(stack.touch(Portable, line, soils)),
            Contents::Stamped(sets) => Look::of(sets.touch(line, soils)),
            Contents::InSlots(slots) => slots.touch(line, soils),
        };
        if look != Look::Miss {
            self.recent.note(line, soils);
        }
        look
    }

    /// Prefetches a line's set, if its lines are in order of use.
    #[inline(always)]
    pub fn prefetch(&self, address: CacheAddress) {
        if let Contents::InOrder(stack) = &self.contents {
            stack.prefetch(self.line(address));
        }
    }

    /// The oldest line of a line's set, if the set is full and in order of use.
    #[inline(always)]
    pub fn oldest(&self, address: CacheAddress) -> Option<CacheAddress> {
        let (line, _) = self.in_order()?.oldest(self.line(address)).line()?;
        Some(CacheAddress::same(line << self.line_shift))
    }

    /// Puts a missing line in; returns the one that it evicts.
    #[inline]
    pub fn fill(&mut self, address: CacheAddress, dirty: bool) -> Option<Evicted> {
        let (line, shift) = (self.line(address), self.line_shift);
        self.recent.note(line, dirty);
        let oldest = match &mut self.contents {
            Contents::InOrder(stack) => stack.fill(line, dirty),
            Contents::Stamped(sets) => sets.fill(line, dirty),
            Contents::InSlots(slots) => return slots.fill(line, address, dirty),
        };
        let (line, dirty) = oldest.line()?;
        Some(Evicted { address: CacheAddress::same(line << shift), dirty })
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
            Contents::InOrder(stack) => stack.give(Portable, line),
            Contents::Stamped(sets) => sets.give(line),
            Contents::InSlots(slots) => slots.give(line),
        }
    }

    /// Makes a line dirty if it is here; returns whether it is. That is no use for the replacement policy.
    pub fn soil(&mut self, address: CacheAddress) -> bool {
        let line = self.line(address);
        match &mut self.contents {
            Contents::InOrder(stack) => stack.soil(line),
            Contents::Stamped(sets) => sets.soil(line),
            Contents::InSlots(slots) => slots.soil(line),
        }
    }

    /// Fills so far, if it is shared and inclusive.
    pub fn fills(&self) -> u64 {
        match &self.contents {
            Contents::InOrder(_) | Contents::Stamped(_) => 0,
            Contents::InSlots(slots) => slots.fills,
        }
    }

    /// Whether it has held a line since before its next fill after so many, if it is shared and inclusive.
    pub fn has_held(&self, address: CacheAddress, fills: u64) -> bool {
        match &self.contents {
            Contents::InOrder(_) | Contents::Stamped(_) => false,
            Contents::InSlots(slots) => slots.has_held(self.line(address), fills),
        }
    }

    /// The addresses of its lines' first bytes.
    pub fn addresses(&self) -> Box<dyn Iterator<Item = CacheAddress> + '_> {
        let shift = self.line_shift;
        let lines = match &self.contents {
            Contents::InOrder(stack) => stack.all(),
            Contents::Stamped(sets) => sets.all(),
            Contents::InSlots(slots) => {
                return Box::new(slots.all().filter_map(|line| slots.address_of(line)));
            }
        };
        Box::new(lines.into_iter().map(move |line| CacheAddress::same(line << shift)))
    }
}

/// Caches whose lines are in order of use.
///
/// # Panics
/// If lines are in slots: a path with steps has none.
impl Cache {
    /// Looks a line up, and puts it in if it is missing.
    #[inline(always)]
    pub fn enter(&mut self, lanes: impl Lanes, line: u64, soils: bool) -> Entered {
        self.recent.note(line, soils);
        match &mut self.contents {
            Contents::InOrder(stack) => stack.enter(lanes, line, soils),
            Contents::Stamped(sets) => sets.enter(lanes, line, soils),
            Contents::InSlots(_) => no_slots(),
        }
    }

    /// Looks a line up.
    #[inline(always)]
    pub fn use_line(&mut self, lanes: impl Lanes, line: u64) -> bool {
        let hit = match &mut self.contents {
            Contents::InOrder(stack) => stack.touch(lanes, line, false),
            Contents::Stamped(sets) => sets.touch(line, false),
            Contents::InSlots(_) => no_slots(),
        };
        if hit {
            self.recent.note(line, false);
        }
        hit
    }

    /// [`Cache::give`].
    #[inline(always)]
    pub fn give_line(&mut self, lanes: impl Lanes, line: u64) -> Option<bool> {
        self.recent.forget(line);
        match &mut self.contents {
            Contents::InOrder(stack) => stack.give(lanes, line),
            Contents::Stamped(sets) => sets.give(line),
            Contents::InSlots(_) => no_slots(),
        }
    }

    /// Makes a line dirty that is the latest of its set.
    pub fn soil_latest(&mut self, line: u64) {
        match &mut self.contents {
            Contents::InOrder(stack) => stack.soil_latest(line),
            Contents::Stamped(sets) => sets.soil_latest(line),
            Contents::InSlots(_) => no_slots(),
        }
    }
}

#[cold]
fn no_slots() -> ! {
    unreachable!("a path with steps has no slots")
}
