//! The family of caches against one slow cache for each geometry: misses by kind, on random streams of lines.

use pagewalk_oracle::{LruSets, cases};
use pagewalk_reuse::{CacheFamily, MissKinds, ReferenceKinds};
use pagewalk_units::VirtAddr;
use proptest::prelude::*;

/// Bytes that `oracle` takes for a page: its numbers of pages are ours of lines of 32 bytes.
const SLOW_SHIFT: u32 = 12;
const LINE_SHIFT: u32 = 5;

/// Addresses in a few arrays, which lie anywhere and are strided, so that sets fill; often near the array's start.
fn addresses() -> impl Strategy<Value = Vec<u64>> {
    let array = (0..1_u64 << 40, 0..16_u32).prop_map(|(base, bits)| base >> bits << bits);
    let arrays = prop::collection::vec(array, 1..5);
    let form = (arrays, 1..600_u64, prop::sample::select(vec![3_u32, 5, 5, 6, 7, 9, 12, 17]), 0..3_u32);
    (form, prop::collection::vec((any::<u64>(), any::<u64>()), 1..3000)).prop_map(
        |((arrays, places, stride, skew), ones)| {
            let address = |(array, place): (u64, u64)| {
                let near =
                    (0..skew).fold(place % places, |near, turn| near.min((place ^ array >> turn) % places));
                arrays[(array % arrays.len() as u64) as usize] + (near << stride)
            };
            ones.into_iter().map(address).collect()
        },
    )
}

type Shape = (u32, u32, u32);

fn shape() -> impl Strategy<Value = Shape> {
    let ways = prop_oneof![4 => 1..=8_u32, 4 => 1..=CacheFamily::WAYS_MAX, 1 => Just(CacheFamily::WAYS_MAX)];
    (prop::sample::select(&CacheFamily::LINE_BYTES[..]), (0..13_u32).prop_map(|bits| 1 << bits), ways)
}

/// Misses of one cache, simulated alone, and of the fully associative one of its size.
fn slow(addresses: &[u64], (line_bytes, sets, ways): Shape) -> MissKinds {
    let shift = SLOW_SHIFT + line_bytes.ilog2() - LINE_SHIFT;
    let mut cache = LruSets::new(shift, sets as usize, ways as usize);
    let mut full = LruSets::new(shift, 1, (sets * ways) as usize);
    let mut seen = std::collections::HashSet::new();
    for &address in addresses {
        cache.refer(address >> LINE_SHIFT);
        full.refer(address >> LINE_SHIFT);
        seen.insert(address / u64::from(line_bytes));
    }
    let compulsory = seen.len() as u64;
    MissKinds {
        compulsory,
        capacity: full.misses - compulsory,
        conflict: cache.misses as i64 - full.misses as i64,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(200), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_cache_misses_as_if_simulated_alone(
        addresses in addresses(),
        shapes in prop::collection::vec(shape(), 1..12),
    ) {
        let mut family = CacheFamily::new(ReferenceKinds::Data);
        addresses.iter().for_each(|&address| family.reference(VirtAddr(address)));
        prop_assert_eq!(family.references(), addresses.len() as u64);
        for shape in shapes {
            let (line_bytes, sets, ways) = shape;
            let kinds = family.misses(line_bytes, sets, ways);
            prop_assert_eq!(kinds, Some(slow(&addresses, shape)), "{} bytes, {} sets, {} ways", line_bytes, sets, ways);
        }
    }
}

#[test]
fn caches_miss_less_than_a_fully_associative_one_where_lru_fails() {
    let mut family = CacheFamily::new(ReferenceKinds::Data);
    // Three lines in turns: too many for two entries, but two of them share no set with the third.
    (0..3).for_each(|_| [0, 32, 64].into_iter().for_each(|address| family.reference(VirtAddr(address))));
    let kinds = family.misses(32, 2, 1).unwrap();
    assert_eq!(kinds, MissKinds { compulsory: 3, capacity: 6, conflict: -2 });
    assert_eq!(kinds.all(), 7);
}

#[test]
fn caches_outside_the_family_have_no_misses() {
    let family = CacheFamily::new(ReferenceKinds::Data);
    for (line_bytes, sets, ways) in [(16, 1, 1), (64, 3, 1), (64, 8192, 1), (64, 1, 0), (64, 1, 33)] {
        assert_eq!(family.misses(line_bytes, sets, ways), None);
    }
}
