//! The lines of a cache with least-recently-used replacement, each with the times of its last uses.
//!
//! A table tells in which place a line was last, by the lowest bits of its number. If it still is there, a hit is a
//! comparison and a store, whatever else the set holds: for caches that see all fetches or all data references of a
//! program. Else the set is searched. [`LruStack`](crate::stack::LruStack) is for caches that see few.

use crate::lanes::{self, Lanes, Portable, Work};
use crate::place::{EMPTY, Found, Place};
use crate::stack::{Entered, Oldest};
use crate::{CacheSpec, Requester};
use hits::Latest;

mod hits;

/// log2 of the table's entries for each place.
const TABLE_SHIFT: u32 = 3;

/// Times are reserved for about so many lines at once: files may have blocks of any length.
const LINES_MAX: usize = if cfg!(test) { 4 } else { 1 << 24 };

/// An access to some bytes.
#[derive(Clone, Copy, Debug)]
pub struct ByteAccess {
    /// The address of the first byte.
    pub start: u64,
    /// At least 1.
    pub bytes: u64,
    /// Whether it is a store that ends in the cache.
    pub soils: bool,
}

/// The lines of a record.
#[derive(Clone, Copy, Debug)]
pub struct RecordLines {
    /// The line used first.
    pub first: u64,
    /// The line used next, or the same.
    pub second: u64,
    /// Whether it has others.
    pub has_others: bool,
    /// Whether its accesses are stores that end in the cache.
    pub soils: bool,
    /// How many lines its accesses look up. Read only if records are [`Accesses::PAIRED`]: others look up each line
    /// once.
    pub lookups: u64,
}

/// How records access a cache.
pub trait Accesses: Copy {
    /// A record.
    type Record;
    /// Whether records only read, and often use two lines or more, in any order. Otherwise a record uses the lines from
    /// its first to its second, and no others.
    const PAIRED: bool;

    /// The lines of a record. If a cache has them all, its accesses do no more than to use each once.
    fn lines(&self, record: &Self::Record) -> RecordLines;

    /// Its further lines, in the order of use. A line may come again.
    fn others(&self, record: &Self::Record) -> impl Iterator<Item = u64>;

    /// Its accesses, in order.
    fn each(&self, record: &Self::Record) -> impl Iterator<Item = ByteAccess>;

    /// The most lines that one record uses if it hits: 2, unless records are [`Accesses::PAIRED`].
    fn most_lines(&self) -> usize;
}

/// Where lines are.
#[derive(Clone, Copy, Debug)]
struct Shape {
    ways: usize,
    set_mask: usize,
    /// log2 of the places of a set.
    place_bits: u32,
    table_mask: usize,
}

impl Shape {
    /// The first place of a line's set.
    #[inline(always)]
    fn set(self, line: u64) -> usize {
        (line as usize & self.set_mask) << self.place_bits
    }
}

#[derive(Clone, Debug)]
pub(crate) struct StampedSets {
    shape: Shape,
    /// Set by set, from a power of two of places to the next.
    places: Vec<Place>,
    /// The place where a line was last, by its lowest bits.
    table: Vec<u16>,
    /// The time of the last access. Times start anew when they run out.
    now: u32,
}

impl StampedSets {
    /// Whether a cache's lines keep their times of use: it replaces the least recently used one, sees all fetches or
    /// all data references of the program, and is not huge.
    pub fn suit(spec: &CacheSpec) -> bool {
        let serves = |requester| spec.serves.has(requester);
        let sees_all = serves(Requester::Fetch) || serves(Requester::Load) && serves(Requester::Store);
        let is_nearest = spec.level == 1 && spec.slices == 1;
        spec.is_in_order() && is_nearest && sees_all && places(spec) <= 1 << u16::BITS
    }

    /// Empty sets of a checked cache that they [`suit`](StampedSets::suit).
    pub fn new(spec: &CacheSpec) -> StampedSets {
        let (sets, ways, places) = (spec.geometry.sets(), spec.geometry.ways(), places(spec));
        StampedSets {
            shape: Shape {
                ways,
                set_mask: sets - 1,
                place_bits: ways.next_power_of_two().trailing_zeros(),
                table_mask: (places << TABLE_SHIFT) - 1,
            },
            places: vec![Place::NONE; places],
            table: vec![0; places << TABLE_SHIFT],
            now: 0,
        }
    }

    /// Takes the accesses of records in order, and puts in the lines that are missing. `missed` hears of each of those:
    /// the numbers of its record and access, the line, whether the access soils it, and the oldest of its set. Returns
    /// the lookups of loads or fetches, and of stores.
    #[inline(always)]
    pub fn enter_all<A: Accesses>(
        &mut self,
        shift: u32,
        records: &[A::Record],
        accesses: A,
        missed: impl FnMut((usize, usize), u64, bool, Oldest),
    ) -> [u64; 2] {
        lanes::run(EnterAll { sets: self, shift, records, accesses, missed })
    }

    /// Uses a line and the next if it is another, if both are where they were last. Returns how many it used.
    #[inline(always)]
    pub fn repeats(&mut self, first: u64, last: u64, soils: bool) -> u64 {
        let latest = Latest::new(&self.table, self.shape);
        let (one, next) = (latest.of(first), latest.of(last));
        let is_there = self.places[one].line == first && self.places[next].line == last;
        if !is_there || last - first > 1 {
            return 0;
        }
        let time = self.time_for(2);
        self.places[one].uses[usize::from(soils)] = time;
        self.places[next].uses[usize::from(soils)] = time + u32::from(one != next);
        last - first + 1
    }

    /// Uses a line; returns whether it is here.
    #[inline]
    pub fn touch(&mut self, line: u64, soils: bool) -> bool {
        let time = self.time_for(1);
        let found = find(self.shape, &self.places, line);
        found.into_iter().for_each(|at| self.use_at(at, line, soils, time));
        found.is_some()
    }

    /// Puts a missing line in; returns the oldest if the set was full.
    #[inline]
    pub fn fill(&mut self, line: u64, dirty: bool) -> Oldest {
        let time = self.time_for(1);
        let start = self.shape.set(line);
        let set = &self.places[start..start + self.shape.ways];
        let Found { oldest, .. } = Portable.search(set, line);
        self.fill_at(start + oldest, line, dirty, time)
    }

    /// [`StampedSets::touch`], and if the line is missing [`StampedSets::fill`].
    #[inline(always)]
    pub fn enter(&mut self, lanes: impl Lanes, line: u64, soils: bool) -> Entered {
        let time = self.time_for(1);
        let start = self.shape.set(line);
        let Found { held, oldest } = lanes.search(&self.places[start..start + self.shape.ways], line);
        if let Some(held) = held {
            self.use_at(start + held, line, soils, time);
            return Entered::Held;
        }
        Entered::Filled(self.fill_at(start + oldest, line, soils, time))
    }

    /// Uses the line in a place.
    #[inline(always)]
    fn use_at(&mut self, at: usize, line: u64, soils: bool, time: u32) {
        self.table[line as usize & self.shape.table_mask] = at as u16;
        self.places[at].uses[usize::from(soils)] = time;
    }

    /// Puts a line into a place; returns the one that leaves.
    #[inline(always)]
    fn fill_at(&mut self, at: usize, line: u64, dirty: bool, time: u32) -> Oldest {
        self.table[line as usize & self.shape.table_mask] = at as u16;
        let filled = Place { line, uses: [time, if dirty { time } else { 0 }] };
        let left = std::mem::replace(&mut self.places[at], filled);
        if left.line == EMPTY { Oldest::NONE } else { Oldest::of(left.line, left.is_dirty()) }
    }

    /// Gives a line up; returns whether it was dirty, if it was here.
    pub fn give(&mut self, line: u64) -> Option<bool> {
        let at = find(self.shape, &self.places, line)?;
        Some(std::mem::replace(&mut self.places[at], Place::NONE).is_dirty())
    }

    /// Makes a line dirty if it is here; returns whether it is. That is no use.
    pub fn soil(&mut self, line: u64) -> bool {
        let at = find(self.shape, &self.places, line);
        if let Some(at) = at {
            // No use has a time before this one.
            self.places[at].uses[1] = self.places[at].uses[1].max(1);
        }
        at.is_some()
    }

    /// Makes a line dirty that is the latest of its set.
    pub fn soil_latest(&mut self, line: u64) {
        self.soil(line);
    }

    /// All lines.
    pub fn all(&self) -> Vec<u64> {
        self.places.iter().map(|place| place.line).filter(|&line| line != EMPTY).collect()
    }

    /// Reserves times for so many accesses; returns the first.
    #[inline(always)]
    fn time_for(&mut self, accesses: usize) -> u32 {
        let passes = u32::try_from(accesses).expect("fewer than 2^32 accesses at once");
        if passes >= u32::MAX - self.now {
            self.restart_time();
        }
        let first = self.now + 1;
        self.now += passes;
        first
    }

    /// Lets times start anew, in the same order within each set.
    #[cold]
    fn restart_time(&mut self) {
        let length = 1 << self.shape.place_bits;
        for set in self.places.chunks_exact_mut(length) {
            let mut order: Vec<usize> = (0..length).filter(|&at| set[at].line != EMPTY).collect();
            order.sort_unstable_by_key(|&at| set[at].used());
            for (time, at) in (2..).zip(order) {
                set[at].uses = [time, if set[at].is_dirty() { 1 } else { 0 }];
            }
        }
        self.now = length as u32 + 1;
    }
}

/// See [`StampedSets::enter_all`].
struct EnterAll<'a, A: Accesses, M> {
    sets: &'a mut StampedSets,
    shift: u32,
    records: &'a [A::Record],
    accesses: A,
    missed: M,
}

impl<A: Accesses, M: FnMut((usize, usize), u64, bool, Oldest)> Work for EnterAll<'_, A, M> {
    type Result = [u64; 2];

    #[inline(always)]
    fn run(self, lanes: impl Lanes) -> [u64; 2] {
        let EnterAll { sets, shift, records, accesses, mut missed } = self;
        let most = accesses.most_lines().max(2);
        let piece = (LINES_MAX / most).max(1);
        let mut lookups = [0; 2];
        let mut index = 0;
        loop {
            let next = &records[index..records.len().min(index + piece)];
            let before = sets.time_for(most * next.len()) - 1;
            let hits = sets.hits(next, accesses, before);
            sets.now = hits.time;
            lookups = [0, 1].map(|by| lookups[by] + hits.lookups[by]);
            index += hits.records;
            let Some(record) = records.get(index) else { return lookups };
            if hits.records == next.len() {
                continue;
            }
            for (at, ByteAccess { start, bytes, soils }) in accesses.each(record).enumerate() {
                for line in start >> shift..=(start + bytes - 1) >> shift {
                    lookups[usize::from(soils)] += u64::from(!A::PAIRED);
                    // Other records mostly have one line, which the loop did not find.
                    if A::PAIRED && sets.repeats(line, line, soils) != 0 {
                        continue;
                    }
                    if let Entered::Filled(oldest) = sets.enter(lanes, line, soils) {
                        missed((index, at), line, soils, oldest);
                    }
                }
            }
            lookups[0] += if A::PAIRED { accesses.lines(record).lookups } else { 0 };
            index += 1;
        }
    }
}

/// The places of a cache's sets.
fn places(spec: &CacheSpec) -> usize {
    spec.geometry.sets() * spec.geometry.ways().next_power_of_two()
}

/// Where a line is.
#[inline]
fn find(shape: Shape, places: &[Place], line: u64) -> Option<usize> {
    let start = shape.set(line);
    let set = &places[start..start + shape.ways];
    Some(start + set.iter().position(|place| place.line == line)?)
}

#[cfg(test)]
mod tests;
