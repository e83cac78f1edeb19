use super::*;
use crate::lanes::Portable;
use crate::stack::LruStack;
use pagewalk_setassoc::Geometry;
use proptest::prelude::*;

fn spec(sets: u32, ways: u32) -> CacheSpec {
    let geometry = Geometry::new(sets * ways, Some(ways)).expect("a power of two of sets");
    CacheSpec::plain("l1d", 1, &[Requester::Load, Requester::Store], geometry, 4)
}

/// Records of one access.
#[derive(Clone, Copy)]
struct Alone;

impl Accesses for Alone {
    type Record = ByteAccess;
    const PAIRED: bool = false;

    fn lines(&self, record: &ByteAccess) -> RecordLines {
        let (first, second) = (*lines(record).start(), *lines(record).end());
        RecordLines { first, second, has_others: false, soils: record.soils, lookups: 0 }
    }

    fn others(&self, _: &ByteAccess) -> impl Iterator<Item = u64> {
        std::iter::empty()
    }

    fn each(&self, record: &ByteAccess) -> impl Iterator<Item = ByteAccess> {
        std::iter::once(*record)
    }

    fn most_lines(&self) -> usize {
        2
    }
}

/// Records of three accesses.
#[derive(Clone, Copy)]
struct Together;

impl Accesses for Together {
    type Record = [ByteAccess; 3];
    const PAIRED: bool = true;

    fn lines(&self, record: &[ByteAccess; 3]) -> RecordLines {
        let all: Vec<u64> = record.iter().flat_map(lines).collect();
        let lookups = all.len() as u64;
        RecordLines { first: all[0], second: all[1], has_others: all.len() > 2, soils: false, lookups }
    }

    fn others(&self, record: &[ByteAccess; 3]) -> impl Iterator<Item = u64> {
        record.iter().flat_map(lines).skip(2)
    }

    fn each(&self, record: &[ByteAccess; 3]) -> impl Iterator<Item = ByteAccess> {
        (*record).into_iter()
    }

    fn most_lines(&self) -> usize {
        9
    }
}

fn lines(access: &ByteAccess) -> std::ops::RangeInclusive<u64> {
    access.start >> 6..=(access.start + access.bytes - 1) >> 6
}

/// What `enter_all` does, line by line: lookups, and what leaves.
#[expect(clippy::type_complexity, reason = "as `enter_all` tells it")]
fn in_order(
    plain: &mut LruStack,
    accesses: &[ByteAccess],
) -> ([u64; 2], Vec<((usize, usize), u64, Option<(u64, bool)>)>) {
    let (mut left, mut counted) = (Vec::new(), [0, 0]);
    for (index, access) in accesses.iter().enumerate() {
        for line in lines(access) {
            counted[usize::from(access.soils)] += 1;
            if let Entered::Filled(oldest) = plain.enter(Portable, line, access.soils) {
                left.push(((index, 0), line, oldest.line()));
            }
        }
    }
    (counted, left)
}

proptest! {
    /// Whatever is done, also when times run out: the same lines are here, and the same ones leave.
    #[test]
    fn they_equal_sets_in_order(
        (sets, ways) in (0..3u32, 1..10u32),
        time in prop::sample::select(vec![0, u32::MAX - 100, u32::MAX - 7]),
        steps in prop::collection::vec((0..6u8, 0..96u64, any::<bool>(), 0..64u8, 0..64u8), 1..400),
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
                0 => prop_assert_eq!(stamped.give(line), plain.give(Portable, line)),
                1 => prop_assert_eq!(stamped.soil(line), plain.soil(line)),
                2 => prop_assert_eq!(stamped.touch(line, soils), plain.touch(Portable, line, soils)),
                3 => {
                    let access = |index: u64| ByteAccess {
                        start: (line + index % 3) << 6 | 58,
                        bytes: match crosses >> index & 1 {
                            0 => 6,
                            _ if (line + index).is_multiple_of(7) => 200,
                            _ => 8,
                        },
                        soils: stores >> index & 1 != 0,
                    };
                    let accesses: Vec<ByteAccess> = (0..6).map(access).collect();
                    let mut left = Vec::new();
                    let missed = |at: (usize, usize), line, _, oldest: Oldest| {
                        left.push((at, line, oldest.line()));
                    };
                    let lookups = stamped.enter_all(6, &accesses, Alone, missed);
                    let (counted, expected) = in_order(&mut plain, &accesses);
                    prop_assert_eq!(lookups, counted);
                    prop_assert_eq!(left, expected);
                }
                4 => {
                    // Two records of three accesses each, which may come back to a line.
                    let access = |index: u64| ByteAccess {
                        start: (line + u64::from(stores / 2) % (index + 1)) << 6 | 58,
                        bytes: if crosses >> index & 1 == 0 { 6 } else { 80 },
                        soils: false,
                    };
                    let accesses: Vec<ByteAccess> = (0..6).map(access).collect();
                    let records: Vec<[ByteAccess; 3]> =
                        accesses.chunks_exact(3).map(|three| [three[0], three[1], three[2]]).collect();
                    let mut left = Vec::new();
                    let missed = |(record, at): (usize, usize), line, _, oldest: Oldest| {
                        left.push(((3 * record + at, 0), line, oldest.line()));
                    };
                    let lookups = stamped.enter_all(6, &records, Together, missed);
                    let (counted, expected) = in_order(&mut plain, &accesses);
                    prop_assert_eq!(lookups, counted);
                    prop_assert_eq!(left, expected);
                }
                _ => {
                    let expected = leaves(plain.enter(Portable, line, soils));
                    prop_assert_eq!(leaves(stamped.enter(Portable, line, soils)), expected);
                }
            }
        }
        let sorted = |mut lines: Vec<u64>| { lines.sort_unstable(); lines };
        prop_assert_eq!(sorted(stamped.all()), sorted(plain.all()));
    }
}
