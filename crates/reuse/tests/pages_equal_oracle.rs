//! Families and stack distances against the slow models of `oracle`, page by page: all counters, on random streams
//! with invalidated pages.

use pagewalk_oracle::{History, LruSets, cases};
use pagewalk_reuse::{Family, ReferenceKinds, StackDistances};
use pagewalk_units::{PageSize, Vpn};
use proptest::prelude::*;
use std::ops::Range;

#[derive(Clone, Debug)]
enum Op {
    Refer(u64),
    /// 4 KiB pages.
    Gone(Range<u64>),
}

#[derive(Clone, Debug)]
struct Shape {
    size: PageSize,
    sets: u32,
    ways: u32,
}

/// A stream over a few areas: each reference goes to a page of an area, often to one of its first pages.
fn stream(length: Range<usize>, may_go: bool) -> impl Strategy<Value = Vec<Op>> {
    let area = (0..1_u64 << 36, 0..20_u32).prop_map(|(base, bits)| base >> bits << bits);
    let areas = prop::collection::vec(area, 1..6);
    // Pages of an area lie one after the other or a stride apart, so that sets fill.
    let form = (areas, 1..400_u64, prop::sample::select(vec![0_u32, 0, 0, 2, 4, 8, 9, 12, 18]), 0..3_u32);
    let one = (any::<u64>(), any::<u64>(), 0..200_u32, 0..40_u64);
    (form, prop::collection::vec(one, length)).prop_map(move |((areas, pages, stride, skew), ones)| {
        let op = |(area, page, event, bytes): (u64, u64, u32, u64)| {
            let page = (0..skew).fold(page % pages, |page, turn| page.min((page ^ area >> turn) % pages));
            let vpn = areas[(area % areas.len() as u64) as usize] + (page << stride);
            match event {
                0..4 if may_go => Op::Gone(vpn..vpn + 1 + bytes % 4),
                4 if may_go => Op::Gone(vpn..vpn + ((1 + bytes) << (bytes % 20))),
                _ => Op::Refer(vpn),
            }
        };
        ones.into_iter().map(op).collect()
    })
}

fn shape() -> impl Strategy<Value = Shape> {
    let ways = prop_oneof![4 => 1..=8_u32, 4 => 1..=Family::WAYS_MAX, 1 => Just(Family::WAYS_MAX)];
    (prop::sample::select(&Family::PAGE_SIZES[..]), 0..13_u32, ways).prop_map(|(size, bits, ways)| Shape {
        size,
        sets: 1 << bits,
        ways,
    })
}

/// The misses of a slow array over a stream.
fn slow_misses(ops: &[Op], shape: &Shape) -> u64 {
    let mut slow = LruSets::new(shape.size.shift(), shape.sets as usize, shape.ways as usize);
    for op in ops {
        match op {
            Op::Refer(vpn) => slow.refer(*vpn),
            Op::Gone(vpns) => slow.remove(vpns.clone()),
        }
    }
    slow.misses
}

fn family(ops: &[Op]) -> Family {
    let mut family = Family::new(ReferenceKinds::Data);
    for op in ops {
        match op {
            Op::Refer(vpn) => family.reference(Vpn(*vpn)),
            Op::Gone(vpns) => family.invalidate(Vpn(vpns.start)..Vpn(vpns.end)),
        }
    }
    family
}

fn distances(ops: &[Op]) -> StackDistances {
    let mut distances = StackDistances::new(ReferenceKinds::Data);
    for op in ops {
        match op {
            Op::Refer(vpn) => distances.reference(Vpn(*vpn)),
            Op::Gone(vpns) => distances.invalidate(Vpn(vpns.start)..Vpn(vpns.end)),
        }
    }
    distances
}

fn references(ops: &[Op]) -> u64 {
    ops.iter().filter(|op| matches!(op, Op::Refer(_))).count() as u64
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(200), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn designs_equal_the_oracles(
        ops in stream(1..3000, true), shapes in prop::collection::vec(shape(), 1..20)
    ) {
        let family = family(&ops);
        prop_assert_eq!(family.references(), references(&ops));
        for shape in &shapes {
            let misses = family.misses(shape.size, shape.sets, shape.ways);
            prop_assert_eq!(misses, Some(slow_misses(&ops, shape)), "{:?}", shape);
        }
    }

    #[test]
    fn misses_of_every_size_equal_the_oracles(
        ops in stream(1..3000, true), sizes in prop::collection::vec(1..600_u32, 1..10)
    ) {
        let distances = distances(&ops);
        prop_assert_eq!(distances.references(), references(&ops));
        for &ways in &sizes {
            let slow = slow_misses(&ops, &Shape { size: PageSize::FOUR_KIB, sets: 1, ways });
            prop_assert_eq!(distances.misses_with(ways as usize), slow, "{} entries", ways);
        }
    }

    #[test]
    fn distances_equal_the_historys(ops in stream(1..1500, false)) {
        let distances = distances(&ops);
        let (mut history, mut cold, mut histogram) = (History::default(), 0, Vec::new());
        for op in &ops {
            let Op::Refer(vpn) = op else { unreachable!("nothing is taken away") };
            match history.refer(*vpn) {
                None => cold += 1,
                Some(distance) => {
                    histogram.resize(histogram.len().max(distance + 1), 0);
                    histogram[distance] += 1;
                }
            }
        }
        prop_assert_eq!(distances.histogram(), histogram);
        prop_assert_eq!((distances.cold(), distances.taken_away()), (cold, 0));
    }

    #[test]
    fn more_ways_never_miss_more(ops in stream(1..3000, true)) {
        let family = family(&ops);
        let distances = distances(&ops);
        for size in Family::PAGE_SIZES {
            for bits in 0..13 {
                let misses = |ways| family.misses(size, 1 << bits, ways).unwrap();
                prop_assert!((1..Family::WAYS_MAX).all(|ways| misses(ways + 1) <= misses(ways)));
            }
        }
        for ways in 1..=Family::WAYS_MAX {
            let misses = distances.misses_with(ways as usize);
            prop_assert_eq!(family.misses(PageSize::FOUR_KIB, 1, ways), Some(misses));
        }
        prop_assert!((1..600).all(|entries| distances.misses_with(entries + 1) <= distances.misses_with(entries)));
    }
}
