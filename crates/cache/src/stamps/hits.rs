//! Records whose lines are where they were last: the loops that most references of programs take.
//!
//! Each is a loop of its own: as closures of one, they take a tenth more instructions.

use super::{Accesses, RecordLines, Shape, StampedSets};
use crate::place::Place;

/// Records whose accesses were hits, up to one of which some may not be.
pub(super) struct Hits {
    pub records: usize,
    /// The time of their last access.
    pub time: u32,
    /// Their lookups by loads or fetches, and by stores.
    pub lookups: [u64; 2],
}

/// The place where each line was last, by the lowest bits of its number.
#[derive(Clone, Copy)]
pub(super) struct Latest<'a> {
    table: &'a [u16],
    mask: usize,
}

impl StampedSets {
    /// Takes records as long as their lines are where they were last. `before`: the time before their first access.
    #[inline(never)]
    pub(super) fn hits<A: Accesses>(&mut self, records: &[A::Record], accesses: A, before: u32) -> Hits {
        let StampedSets { shape, places, table, .. } = self;
        // In registers.
        let latest = Latest::new(table, *shape);
        match A::PAIRED {
            true => pairs(places, latest, records, accesses, before),
            false => single_lines(places, latest, records, accesses, before),
        }
    }
}

/// For records that mostly use one line.
#[inline(always)]
fn single_lines<A: Accesses>(
    places: &mut [Place],
    latest: Latest<'_>,
    records: &[A::Record],
    accesses: A,
    before: u32,
) -> Hits {
    let (mut time, mut soiled) = (before, 0);
    let mut rest = records.iter();
    let left = loop {
        let left = rest.len();
        let Some(record) = rest.next() else { break 0 };
        let RecordLines { first, second, soils, .. } = accesses.lines(record);
        if second != first {
            let (one, next) = (latest.of(first), latest.of(second));
            let is_next = second.wrapping_sub(first) == 1;
            if !is_next || places[one].line != first || places[next].line != second {
                break left;
            }
            places[one].uses[usize::from(soils)] = time + 1;
            places[next].uses[usize::from(soils)] = time + 2;
            time += 2;
            soiled += 2 * u64::from(soils);
            continue;
        }
        let place = &mut places[latest.of(first)];
        if place.line != first {
            break left;
        }
        time += 1;
        soiled += u64::from(soils);
        place.uses[usize::from(soils)] = time;
    };
    Hits { records: records.len() - left, time, lookups: [u64::from(time - before) - soiled, soiled] }
}

/// For records that only read, and often use two lines.
#[inline(always)]
fn pairs<A: Accesses>(
    places: &mut [Place],
    latest: Latest<'_>,
    records: &[A::Record],
    accesses: A,
    before: u32,
) -> Hits {
    let (mut time, mut lookups) = (before, 0);
    let mut rest = records.iter();
    let left = loop {
        let left = rest.len();
        let Some(record) = rest.next() else { break 0 };
        let RecordLines { first, second, has_others, lookups: own, .. } = accesses.lines(record);
        let (one, next) = (latest.of(first), latest.of(second));
        if places[one].line != first || places[next].line != second {
            break left;
        }
        if has_others && !latest.has_others(places, accesses, record) {
            break left;
        }
        // Of a record with one line, the second use counts.
        places[one].uses[0] = time + 1;
        places[next].uses[0] = time + 2;
        time += 2;
        if has_others {
            time = latest.use_others(places, accesses, record, time);
        }
        lookups += own;
    };
    Hits { records: records.len() - left, time, lookups: [lookups, 0] }
}

impl<'a> Latest<'a> {
    #[inline(always)]
    pub fn new(table: &'a [u16], shape: Shape) -> Latest<'a> {
        Latest { table: &table[..=shape.table_mask], mask: shape.table_mask }
    }

    /// The place where a line was last, or another one was whose number ends alike.
    #[inline(always)]
    pub fn of(self, line: u64) -> usize {
        usize::from(self.table[line as usize & self.mask])
    }

    /// Whether the further lines of a record are where they were last.
    #[inline(never)]
    fn has_others<A: Accesses>(self, places: &[Place], accesses: A, record: &A::Record) -> bool {
        accesses.others(record).all(|line| places[self.of(line)].line == line)
    }

    /// Uses them. `time`: of the use before. Returns the time of the last use.
    #[inline(never)]
    fn use_others<A: Accesses>(
        self,
        places: &mut [Place],
        accesses: A,
        record: &A::Record,
        mut time: u32,
    ) -> u32 {
        for line in accesses.others(record) {
            time += 1;
            places[self.of(line)].uses[0] = time;
        }
        time
    }
}
