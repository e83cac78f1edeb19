//! The lines of a cache with least-recently-used replacement, each with the times of its last uses.
//!
//! A table tells in which place a line was last, by the lowest bits of its number. If it still is there, a hit is a
//! comparison and a store, whatever else the set holds: for caches that see all fetches or all data references of a
//! program. Else the set is searched. [`LruStack`](crate::stack::LruStack) is for caches that see few.

use crate::stack::{Entered, Oldest};
use crate::{CacheSpec, Requester};

/// Marks an empty place; no line has this number.
const EMPTY: u64 = u64::MAX;

/// log2 of the table's entries for each place.
const TABLE_SHIFT: u32 = 3;

/// Times are reserved for about so many lines at once: files may have blocks of any length.
const LINES_MAX: usize = if cfg!(test) { 4 } else { 1 << 24 };

/// A place for a line.
#[derive(Clone, Copy, Debug)]
struct Place {
    line: u64,
    /// The times of the last use and of the last store; no store: 0, so that the line is clean.
    uses: [u32; 2],
}

impl Place {
    /// Free: as if used before all others.
    const NONE: Place = Place { line: EMPTY, uses: [0; 2] };

    fn used(&self) -> u32 {
        self.uses[0].max(self.uses[1])
    }

    fn is_dirty(&self) -> bool {
        self.uses[1] != 0
    }
}

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

/// The accesses of records, in order.
pub struct Accesses<'a, R, F> {
    /// The records.
    pub records: &'a [R],
    /// The accesses of a record.
    pub of: F,
    /// Accesses of one record, at most.
    pub most: usize,
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

/// Accesses that were hits, up to one that may not be.
struct Hits {
    /// The records before that one's.
    records: usize,
    /// Its number in its record.
    at: usize,
    /// Lines that the accesses before it used, and how many of those uses were stores.
    lines: u32,
    soiled: u64,
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

    /// Takes accesses in order, and puts in the lines that are missing. `missed` hears of each of those: the numbers of
    /// its record and access, the line, whether the access soils it, and the oldest of its set. Returns the lookups of
    /// loads and of stores.
    #[inline(always)]
    pub fn enter_all<R, A: Iterator<Item = ByteAccess>>(
        &mut self,
        shift: u32,
        accesses: Accesses<'_, R, impl Fn(&R) -> A>,
        mut missed: impl FnMut((usize, usize), u64, bool, Oldest),
    ) -> [u64; 2] {
        let Accesses { records, of, most } = accesses;
        // `hits` takes no access of more than two lines.
        let lines = 2 * most.max(1);
        let piece = (LINES_MAX / lines).max(1);
        let mut lookups = [0; 2];
        let mut index = 0;
        loop {
            let next = &records[index..records.len().min(index + piece)];
            let time = self.time_for(next.len() * lines) - 1;
            let hits = self.hits(shift, next, &of, time);
            self.now = time + hits.lines;
            lookups[0] += u64::from(hits.lines) - hits.soiled;
            lookups[1] += hits.soiled;
            index += hits.records;
            let Some(record) = records.get(index) else { return lookups };
            if hits.records == next.len() {
                continue;
            }
            for (at, ByteAccess { start, bytes, soils }) in of(record).enumerate().skip(hits.at) {
                for line in start >> shift..=(start + bytes - 1) >> shift {
                    lookups[usize::from(soils)] += 1;
                    if self.repeats(line, line, soils) == 0
                        && let Entered::Filled(oldest) = self.enter(line, soils)
                    {
                        missed((index, at), line, soils, oldest);
                    }
                }
            }
            index += 1;
        }
    }

    /// Takes accesses as long as their lines are where they were last. `time`: of the access before them.
    #[inline(never)]
    fn hits<R, A: Iterator<Item = ByteAccess>>(
        &mut self,
        shift: u32,
        records: &[R],
        of: &impl Fn(&R) -> A,
        time: u32,
    ) -> Hits {
        // In registers.
        let StampedSets { shape, places, table, .. } = self;
        let (mask, places, table) = (shape.table_mask, &mut places[..], &table[..=shape.table_mask]);
        let latest = |line: u64| usize::from(table[line as usize & mask]);
        let (mut now, mut soiled) = (time, 0);
        for (index, record) in records.iter().enumerate() {
            for (at, ByteAccess { start, bytes, soils }) in of(record).enumerate() {
                let (line, last) = (start >> shift, (start + bytes - 1) >> shift);
                let place = latest(line);
                let is_here = places[place].line == line;
                let next = if last == line { place } else { latest(last) };
                if !is_here || last != line && (places[next].line != last || last - line > 1) {
                    return Hits { records: index, at, lines: now - time, soiled };
                }
                now += 1;
                places[place].uses[usize::from(soils)] = now;
                soiled += u64::from(soils);
                if last != line {
                    now += 1;
                    places[next].uses[usize::from(soils)] = now;
                    soiled += u64::from(soils);
                }
            }
        }
        Hits { records: records.len(), at: 0, lines: now - time, soiled }
    }

    /// Uses a line and the next if it is another, if both are where they were last. Returns how many it used.
    #[inline(always)]
    pub fn repeats(&mut self, first: u64, last: u64, soils: bool) -> u64 {
        let (one, next) = (self.latest(first), self.latest(last));
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
        let oldest = (0..set.len()).min_by_key(|&way| set[way].used()).expect("a set has ways");
        self.fill_at(start + oldest, line, dirty, time)
    }

    /// [`StampedSets::touch`], and if the line is missing [`StampedSets::fill`].
    #[inline(never)]
    pub fn enter(&mut self, line: u64, soils: bool) -> Entered {
        let time = self.time_for(1);
        let start = self.shape.set(line);
        let set = &self.places[start..start + self.shape.ways];
        // Without branches: where a line is cannot be foretold.
        let (mut held, mut oldest, mut age) = (usize::MAX, 0, u32::MAX);
        for (way, place) in set.iter().enumerate() {
            let used = place.used();
            held = if place.line == line { way } else { held };
            oldest = if used < age { way } else { oldest };
            age = age.min(used);
        }
        if held != usize::MAX {
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

    /// Where a line was last, or another one was whose number ends alike.
    #[inline(always)]
    fn latest(&self, line: u64) -> usize {
        usize::from(self.table[line as usize & self.shape.table_mask])
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
mod tests {
    use super::*;
    use crate::stack::LruStack;
    use crate::{AddressUsed, CacheFills, CacheOrganisation, StoreRule};
    use pagewalk_setassoc::{Geometry, Replacement};
    use proptest::prelude::*;

    fn spec(sets: u32, ways: u32) -> CacheSpec {
        CacheSpec {
            name: "l1d".into(),
            level: 1,
            serves: [Requester::Load, Requester::Store].into_iter().collect(),
            line_shift: 6,
            geometry: Geometry::new(sets * ways, Some(ways)).expect("a power of two of sets"),
            slices: 1,
            replacement: Replacement::Lru,
            organisation: CacheOrganisation::Sets,
            latency: 4,
            shared: false,
            stores: StoreRule::Back,
            write_buffer: None,
            address: AddressUsed::Physical,
            fills: CacheFills::Misses,
            inclusive: false,
        }
    }

    proptest! {
        /// Whatever is done, also when times run out: the same lines are here, and the same ones leave.
        #[test]
        fn they_equal_sets_in_order(
            (sets, ways) in (0..3u32, 1..10u32),
            time in prop::sample::select(vec![0, u32::MAX - 100, u32::MAX - 7]),
            steps in prop::collection::vec((0..5u8, 0..96u64, any::<bool>(), 0..64u8, 0..64u8), 1..400),
        ) {
            let spec = spec(1 << sets, ways);
            let (mut stamped, mut plain) = (StampedSets::new(&spec), LruStack::new(&spec));
            stamped.now = time;
            let leaves = |entered| match entered {
                Entered::Held => None,
                Entered::Filled(oldest) => Some(oldest.line()),
            };
            for (step, line, soils, crosses, stores) in steps {
                match step {
                    0 => prop_assert_eq!(stamped.give(line), plain.give(line)),
                    1 => prop_assert_eq!(stamped.soil(line), plain.soil(line)),
                    2 => prop_assert_eq!(stamped.touch(line, soils), plain.touch(line, soils)),
                    3 => {
                        // Of two records: three accesses in one line, two or four, some of which store.
                        let access = |index: u64| ByteAccess {
                            start: (line + index % 3) << 6 | 58,
                            bytes: match crosses >> index & 1 {
                                0 => 6,
                                _ if (line + index).is_multiple_of(7) => 200,
                                _ => 8,
                            },
                            soils: stores >> index & 1 != 0,
                        };
                        let accesses = Accesses {
                            records: &[[0, 1, 2], [3, 4, 5]],
                            of: |indices: &[u64; 3]| indices.map(access).into_iter(),
                            most: 3,
                        };
                        let mut left = Vec::new();
                        let missed = |at, line, _, oldest: Oldest| left.push((at, line, oldest.line()));
                        let lookups = stamped.enter_all(6, accesses, missed);
                        let (mut expected, mut counted) = (Vec::new(), [0, 0]);
                        for index in 0..6 {
                            let ByteAccess { start, bytes, soils } = access(index);
                            for line in start >> 6..=(start + bytes - 1) >> 6 {
                                counted[usize::from(soils)] += 1;
                                if let Entered::Filled(oldest) = plain.enter(line, soils) {
                                    let at = (index as usize / 3, index as usize % 3);
                                    expected.push((at, line, oldest.line()));
                                }
                            }
                        }
                        prop_assert_eq!(lookups, counted);
                        prop_assert_eq!(left, expected);
                    }
                    _ => prop_assert_eq!(leaves(stamped.enter(line, soils)), leaves(plain.enter(line, soils))),
                }
            }
            let sorted = |mut lines: Vec<u64>| { lines.sort_unstable(); lines };
            prop_assert_eq!(sorted(stamped.all()), sorted(plain.all()));
        }
    }
}
