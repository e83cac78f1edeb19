//! The lines of a cache with least-recently-used replacement, each with the times of its last uses.
//!
//! A table tells in which way a line was last, by the lowest bits of its number. If it still is there, a hit is a
//! comparison and a store, whatever else the set holds: for caches that see every reference of a program. Else the set
//! is searched. [`LruStack`](crate::stack::LruStack) is for caches that see few.

use crate::CacheSpec;
use crate::stack::{Entered, Oldest};

/// Marks an empty place; no line has this number.
const EMPTY: u64 = u64::MAX;

/// log2 of the table's entries for each place.
const TABLE_SHIFT: u32 = 3;

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
    /// The way where a line was last, by its lowest bits.
    table: Vec<u8>,
    /// The time of the last access. Times start anew when they run out.
    now: u32,
}

impl StampedSets {
    /// Empty sets of a checked cache without slices.
    pub fn new(spec: &CacheSpec) -> StampedSets {
        let (sets, ways) = (spec.geometry.sets(), spec.geometry.ways());
        let places = sets * ways.next_power_of_two();
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

    /// Takes accesses in order, and puts in the lines that are missing. `missed` hears of each of those: the number of
    /// its access, the line, whether the access soils it, and the oldest of its set. Returns the lookups of loads and
    /// of stores.
    #[inline(always)]
    pub fn enter_all(
        &mut self,
        shift: u32,
        accesses: impl ExactSizeIterator<Item = ByteAccess>,
        mut missed: impl FnMut(usize, u64, bool, Oldest),
    ) -> [u64; 2] {
        let count = accesses.len();
        let mut time = self.time_for(count) - 1;
        let mut lookups = [count as u64, 0];
        // In registers.
        let StampedSets { shape, places, table, now } = self;
        let (shape, places, table) = (*shape, &mut places[..], &mut table[..=shape.table_mask]);
        for (index, ByteAccess { start, bytes, soils }) in accesses.enumerate() {
            let line = start >> shift;
            let last = (start + bytes - 1) >> shift;
            lookups[1] += u64::from(soils);
            time += 1;
            let at = shape.set(line) | usize::from(table[line as usize & shape.table_mask]);
            let place = &mut places[at];
            if place.line == line && last == line {
                place.uses[usize::from(soils)] = time;
                continue;
            }
            if let Entered::Filled(oldest) = enter(shape, places, table, line, soils, time) {
                missed(index, line, soils, oldest);
            }
            for line in line + 1..=last {
                lookups[0] += 1;
                lookups[1] += u64::from(soils);
                *now = time;
                time = time_for(now, shape, places, count - index);
                if let Entered::Filled(oldest) = enter(shape, places, table, line, soils, time) {
                    missed(index, line, soils, oldest);
                }
            }
        }
        *now = time;
        [lookups[0] - lookups[1], lookups[1]]
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
        touch(self.shape, &mut self.places, &mut self.table, line, soils, time)
    }

    /// Puts a missing line in; returns the oldest if the set was full.
    #[inline]
    pub fn fill(&mut self, line: u64, dirty: bool) -> Oldest {
        let time = self.time_for(1);
        fill(self.shape, &mut self.places, &mut self.table, line, dirty, time)
    }

    /// [`StampedSets::touch`], and if the line is missing [`StampedSets::fill`].
    #[inline]
    pub fn enter(&mut self, line: u64, soils: bool) -> Entered {
        let time = self.time_for(1);
        enter(self.shape, &mut self.places, &mut self.table, line, soils, time)
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
        self.shape.set(line) | usize::from(self.table[line as usize & self.shape.table_mask])
    }

    #[inline(always)]
    fn time_for(&mut self, accesses: usize) -> u32 {
        time_for(&mut self.now, self.shape, &mut self.places, accesses)
    }
}

/// Where a line is.
#[inline]
fn find(shape: Shape, places: &[Place], line: u64) -> Option<usize> {
    let start = shape.set(line);
    let set = &places[start..start + shape.ways];
    Some(start + set.iter().position(|place| place.line == line)?)
}

#[inline]
fn touch(shape: Shape, places: &mut [Place], table: &mut [u8], line: u64, soils: bool, time: u32) -> bool {
    let Some(at) = find(shape, places, line) else { return false };
    table[line as usize & shape.table_mask] = (at - shape.set(line)) as u8;
    places[at].uses[usize::from(soils)] = time;
    true
}

#[inline]
fn fill(shape: Shape, places: &mut [Place], table: &mut [u8], line: u64, dirty: bool, time: u32) -> Oldest {
    let start = shape.set(line);
    let (mut oldest, mut age) = (0, u32::MAX);
    for (way, place) in places[start..start + shape.ways].iter().enumerate() {
        let used = place.used();
        oldest = if used < age { way } else { oldest };
        age = age.min(used);
    }
    table[line as usize & shape.table_mask] = oldest as u8;
    let filled = Place { line, uses: [time, if dirty { time } else { 0 }] };
    let left = std::mem::replace(&mut places[start + oldest], filled);
    if left.line == EMPTY { Oldest::NONE } else { Oldest::of(left.line, left.is_dirty()) }
}

#[inline(never)]
fn enter(shape: Shape, places: &mut [Place], table: &mut [u8], line: u64, soils: bool, time: u32) -> Entered {
    if touch(shape, places, table, line, soils, time) {
        return Entered::Held;
    }
    Entered::Filled(fill(shape, places, table, line, soils, time))
}

/// The time of the first of so many accesses, which pass time until the last.
#[inline(always)]
fn time_for(now: &mut u32, shape: Shape, places: &mut [Place], accesses: usize) -> u32 {
    let passes = u32::try_from(accesses).expect("fewer than 2^32 accesses at once");
    if passes >= u32::MAX - *now {
        *now = restart_time(shape, places);
    }
    let first = *now + 1;
    *now += passes;
    first
}

/// Lets times start anew, in the same order within each set. Returns the latest.
#[cold]
fn restart_time(shape: Shape, places: &mut [Place]) -> u32 {
    let length = 1 << shape.place_bits;
    for set in places.chunks_exact_mut(length) {
        let mut order: Vec<usize> = (0..length).filter(|&at| set[at].line != EMPTY).collect();
        order.sort_unstable_by_key(|&at| set[at].used());
        for (time, at) in (2..).zip(order) {
            set[at].uses = [time, if set[at].is_dirty() { 1 } else { 0 }];
        }
    }
    length as u32 + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::LruStack;
    use crate::{AddressUsed, CacheFills, CacheOrganisation, Requester, StoreRule};
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
            steps in prop::collection::vec((0..5u8, 0..96u64, any::<bool>()), 1..400),
        ) {
            let spec = spec(1 << sets, ways);
            let (mut stamped, mut plain) = (StampedSets::new(&spec), LruStack::new(&spec));
            stamped.now = time;
            let leaves = |entered| match entered {
                Entered::Held => None,
                Entered::Filled(oldest) => Some(oldest.line()),
            };
            for (step, line, soils) in steps {
                match step {
                    0 => prop_assert_eq!(stamped.give(line), plain.give(line)),
                    1 => prop_assert_eq!(stamped.soil(line), plain.soil(line)),
                    2 => prop_assert_eq!(stamped.touch(line, soils), plain.touch(line, soils)),
                    3 => {
                        let access = ByteAccess { start: (line << 6) + 60, bytes: 8, soils };
                        let mut left = Vec::new();
                        let missed = |_, line, _, oldest: Oldest| left.push((line, oldest.line()));
                        let lookups = stamped.enter_all(6, [access].into_iter(), missed);
                        prop_assert_eq!(lookups, if soils { [0, 2] } else { [2, 0] });
                        let entered = [line, line + 1].map(|line| (line, plain.enter(line, soils)));
                        let expected = entered.into_iter().filter_map(|(line, entered)| Some((line, leaves(entered)?)));
                        prop_assert_eq!(left, expected.collect::<Vec<_>>());
                    }
                    _ => prop_assert_eq!(leaves(stamped.enter(line, soils)), leaves(plain.enter(line, soils))),
                }
            }
            let sorted = |mut lines: Vec<u64>| { lines.sort_unstable(); lines };
            prop_assert_eq!(sorted(stamped.all()), sorted(plain.all()));
        }
    }
}
