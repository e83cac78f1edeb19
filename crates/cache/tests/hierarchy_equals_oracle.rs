//! Compares the hierarchy with the reference model of `oracle`: latencies and all counters, for random accesses.

use pagewalk_cache::{
    AddressUsed, CacheAddress, CacheFills, CacheOrganisation, CacheSpec, Hierarchy, Requester, RequesterSet,
    StoreRule, WriteBufferSpec, check,
};
use pagewalk_oracle::{Column, Memories, Memory, ReplacementModel, cases};
use pagewalk_setassoc::{Geometry, Replacement};
use proptest::prelude::*;

/// What the caches of one level serve.
const SHAPES: [&[&[Requester]]; 6] = [
    &[],
    &[&[Requester::Fetch, Requester::Load, Requester::Store, Requester::Walk]],
    &[&[Requester::Fetch], &[Requester::Load, Requester::Store]],
    &[&[Requester::Fetch], &[Requester::Load, Requester::Store, Requester::Walk]],
    &[&[Requester::Load, Requester::Store]],
    &[&[Requester::Fetch, Requester::Load, Requester::Walk]],
];

/// Accesses bytes as simulators do; returns the cycles that the requester waits.
fn access(hierarchy: &mut Hierarchy, requester: Requester, address: CacheAddress, bytes: u64) -> u64 {
    if hierarchy.repeats(requester, address, bytes) {
        return 0;
    }
    hierarchy.access_lines(requester, address, bytes, |_| {})
}

/// A cache that serves nobody yet.
fn cache(level: u8) -> impl Strategy<Value = CacheSpec> {
    let replacement = prop::sample::select(&Replacement::NAMES[..]);
    let slices = prop::sample::select(vec![1, 1, 2, 3]);
    let shape = (0..4u32, 1..=4u32, slices);
    let buffer = prop::option::of((1..4u32, 1..30u64));
    let organisation = prop::sample::select(vec!["sets", "sets", "column", "pseudo"]);
    let kinds = (organisation, buffer, any::<bool>());
    (shape, replacement, any::<[bool; 2]>(), kinds).prop_map(move |(shape, replacement, rules, kinds)| {
        let (mut sets, mut ways, mut slices) = shape;
        let (organisation, buffer, inclusive) = kinds;
        let [writes_through, is_victims] = rules;
        let mut replacement = Replacement::from_name(replacement, 3).expect("one of the names");
        let slow_latency = u64::from(level) * 10 + 7;
        let organisation = match organisation {
            "column" => CacheOrganisation::Column { slow_latency },
            "pseudo" => CacheOrganisation::Pseudo { slow_latency },
            _ => CacheOrganisation::Sets,
        };
        if organisation != CacheOrganisation::Sets {
            (ways, slices, replacement) = (1, 1, Replacement::Lru);
            sets += 1;
        }
        if let CacheOrganisation::Pseudo { .. } = organisation {
            ways = 2;
        }
        let ways = (ways..).find(|&ways| replacement.serves(ways as usize).is_ok()).expect("so many or more");
        CacheSpec {
            name: format!("l{level}"),
            level,
            serves: RequesterSet::default(),
            line_shift: 6,
            geometry: Geometry::new(ways << sets, Some(ways)).expect("a power of two of sets"),
            slices,
            replacement,
            organisation,
            latency: u64::from(level) * 10,
            shared: false,
            stores: if writes_through { StoreRule::Through } else { StoreRule::Back },
            write_buffer: buffer.map(|(entries, drain)| WriteBufferSpec { entries, drain }),
            address: AddressUsed::Physical,
            fills: if is_victims && level > 1 { CacheFills::Victims } else { CacheFills::Misses },
            inclusive,
        }
    })
}

/// The caches of a level.
fn level(level: u8) -> impl Strategy<Value = Vec<CacheSpec>> {
    (prop::sample::select(&SHAPES[..]), cache(level), cache(level)).prop_map(|(shape, first, second)| {
        let serving = |(cache, requesters): (CacheSpec, &&[Requester])| CacheSpec {
            name: format!("{}{}", cache.name, requesters[0].name()),
            serves: requesters.iter().copied().collect(),
            ..cache
        };
        [first, second].into_iter().zip(shape).map(serving).collect()
    })
}

/// Lets a victim cache treat stores as the caches above do, and be one only where it can.
fn with_possible_victims(mut caches: Vec<CacheSpec>) -> Vec<CacheSpec> {
    for at in 0..caches.len() {
        let level = caches[at].level;
        let mut above = caches[..at].iter().filter(|cache| cache.level + 1 == level);
        if let Some(above) = above.find(|cache| cache.serves.has(Requester::Store))
            && caches[at].fills == CacheFills::Victims
        {
            caches[at].stores = above.stores;
        }
        if caches[at].stores == StoreRule::Back || !caches[at].serves.has(Requester::Store) {
            caches[at].write_buffer = None;
        }
        let inclusive = std::mem::take(&mut caches[at].inclusive);
        if check(&caches[..=at], false).is_err() {
            caches[at].fills = CacheFills::Misses;
        }
        caches[at].inclusive = inclusive;
        caches[at].inclusive &= check(&caches[..=at], false).is_ok();
    }
    caches
}

/// Caches of up to four levels, the first ones found by virtual addresses.
fn caches() -> impl Strategy<Value = Vec<CacheSpec>> {
    (level(1), level(2), level(3), level(4), 0..5u8, any::<[bool; 4]>())
        .prop_map(|(a, b, c, d, virtual_levels, longer)| {
            let mut caches = [a, b, c, d].concat();
            for cache in &mut caches {
                let longer = longer[..usize::from(cache.level)].iter().filter(|&&longer| longer);
                cache.line_shift = 5 + longer.count() as u32;
            }
            for cache in caches.iter_mut().filter(|cache| cache.level <= virtual_levels) {
                cache.address = AddressUsed::Virtual;
            }
            with_possible_victims(caches)
        })
        .prop_filter("walks need a cache", |caches| check(caches, true).is_ok())
}

/// [`caches`] whose sets hold lines in order of use, with no rules but that some are filled by victims.
fn plain_caches() -> impl Strategy<Value = Vec<CacheSpec>> {
    let ways = prop::sample::select(vec![1, 2, 4, 5, 8, 11, 12, 16, 20, 32]);
    (caches(), prop::collection::vec((0..3u32, ways, any::<bool>()), 8)).prop_map(|(mut caches, shapes)| {
        for (cache, (sets, ways, is_victims)) in caches.iter_mut().zip(shapes) {
            *cache = CacheSpec {
                geometry: Geometry::new(ways << sets, Some(ways)).expect("a power of two of sets"),
                replacement: Replacement::Lru,
                organisation: CacheOrganisation::Sets,
                stores: StoreRule::Back,
                write_buffer: None,
                address: AddressUsed::Physical,
                inclusive: false,
                fills: if is_victims && cache.level > 1 { CacheFills::Victims } else { CacheFills::Misses },
                line_shift: 6,
                ..cache.clone()
            };
        }
        with_possible_victims(caches)
    })
}

fn slow(caches: &[CacheSpec]) -> Memories {
    let memory = |spec: &CacheSpec| {
        let serves = Requester::ALL.map(|requester| spec.serves.has(requester));
        let held = ReplacementModel::new(
            spec.geometry.sets() * spec.slices.next_power_of_two() as usize,
            spec.geometry.ways(),
            spec.replacement.name(),
            spec.replacement.seed().unwrap_or(0),
            "modulo",
        );
        let mut memory = Memory::new(spec.level, serves, spec.latency, held);
        memory.inclusive = spec.inclusive;
        memory.bytes = 1 << spec.line_shift;
        memory.slow_latency = spec.slow_latency();
        if let CacheOrganisation::Column { .. } = spec.organisation {
            memory.column = Some(Column::new(spec.geometry.sets() as u64));
        }
        memory.write_buffer = spec.write_buffer.map(|buffer| (buffer.entries as usize, buffer.drain));
        memory.slices = spec.slices.into();
        memory.writes_through = spec.stores == StoreRule::Through;
        memory.is_virtual = spec.address == AddressUsed::Virtual;
        memory.holds_victims = spec.fills == CacheFills::Victims;
        memory
    };
    Memories::new(caches.iter().map(memory).collect(), 200)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(300), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_counter_equals_the_oracles(
        caches in caches(),
        accesses in prop::collection::vec((0..4usize, 0..12_000u64, 1..100u64), 0..800),
        watched in prop::option::of((any::<prop::sample::Index>(), any::<bool>())),
    ) {
        compare(&caches, &accesses, watched.map(|(index, hits)| (index.index(caches.len()), hits)))?;
    }

    #[test]
    fn plain_caches_count_as_the_oracles_do(
        caches in plain_caches(),
        accesses in prop::collection::vec((0..4usize, 0..12_000u64, 1..100u64), 0..800),
    ) {
        compare(&caches, &accesses, None)?;
    }
}

/// Compares all counts of these accesses by requester, to addresses and bytes.
fn compare(
    caches: &[CacheSpec],
    accesses: &[(usize, u64, u64)],
    watched: Option<(usize, bool)>,
) -> Result<(), TestCaseError> {
    check(caches, true).unwrap();
    let (mut fast, mut slow) = (Hierarchy::new(caches, 200), slow(caches));
    watched.into_iter().for_each(|(index, hits)| fast.watch(index, hits));
    for &(requester, address, bytes) in accesses {
        // Frames in another order than pages, so that virtual and physical lines fall into other sets.
        let physical = (address & !0xfff) * 7 % 0x1_0000 + (address & 0xfff);
        let both = CacheAddress { physical, logical: address };
        slow.now += bytes;
        fast.set_time(slow.now);
        if bytes < 50 {
            let served = fast.access(Requester::ALL[requester], both);
            prop_assert_eq!(fast.latency(served), slow.access_mapped(requester, [physical, address]));
        } else {
            let bytes = bytes.min(0x1000 - address % 0x1000);
            let stalled = access(&mut fast, Requester::ALL[requester], both, bytes);
            prop_assert_eq!(stalled, slow.access_bytes(requester, [physical, address], bytes));
        }
    }
    for (index, cache) in slow.caches.iter().enumerate() {
        for requester in Requester::ALL {
            let counts = fast.counts(index, requester);
            let of = |counts: [u64; 4]| counts[requester as usize];
            prop_assert_eq!((counts.lookups, counts.hits), (of(cache.lookups), of(cache.hits)));
            prop_assert_eq!(counts.slow_hits, of(cache.slow_hits));
            prop_assert_eq!(counts.writebacks, of(cache.writebacks));
            let waited = if requester == Requester::Store { cache.write_stall_cycles } else { 0 };
            prop_assert_eq!(counts.write_stall_cycles, waited);
        }
    }
    let logged = fast.logged();
    for (requester, (index, hits)) in Requester::ALL.into_iter().zip(watched.into_iter().cycle()) {
        let counts = fast.counts(index, requester);
        let times = |hit| {
            let of_it = logged.iter().filter(|access| access.requester == requester && access.hit == hit);
            of_it.count() as u64
        };
        let expected_hits = if hits { counts.hits } else { 0 };
        prop_assert_eq!((times(true), times(false)), (expected_hits, counts.lookups - counts.hits));
    }
    Ok(())
}

/// A cache of 64 lines.
fn plain(name: &str, level: u8, serves: &[Requester]) -> CacheSpec {
    CacheSpec::plain(name, level, serves, Geometry::new(64, Some(4)).unwrap(), 4)
}

fn refused(caches: &[CacheSpec]) -> String {
    check(caches, true).unwrap_err().to_string()
}

/// The first two levels of AMD's K8: what the split first level evicts fills the second, which is exclusive.
#[test]
fn an_exclusive_level_takes_what_split_caches_above_evict() {
    use Requester::{Fetch, Load, Store, Walk};
    let l1i = CacheSpec { geometry: Geometry::new(1, None).unwrap(), ..plain("l1i", 1, &[Fetch]) };
    let l1d =
        CacheSpec { name: "l1d".to_owned(), serves: [Load, Store].into_iter().collect(), ..l1i.clone() };
    let all = [Fetch, Load, Store, Walk];
    let l2 = CacheSpec { fills: CacheFills::Victims, latency: 12, ..plain("l2", 2, &all) };
    let caches = [l1i, l1d, l2];
    check(&caches, true).unwrap();
    let mut hierarchy = Hierarchy::new(&caches, 200);
    let mut at = |requester, line: u64| {
        let served = hierarchy.access(requester, CacheAddress::same(line * 64));
        hierarchy.latency(served)
    };
    assert_eq!([at(Fetch, 1), at(Walk, 1)], [200, 200], "it is in l1i alone");
    assert_eq!([at(Fetch, 2), at(Walk, 1), at(Walk, 1)], [200, 12, 12], "a walk moves no line up");
    assert_eq!([at(Load, 1), at(Walk, 1)], [12, 200], "a load does");
    assert_eq!([at(Store, 2), at(Fetch, 2)], [200, 4], "each of the split caches may have it");
    assert_eq!([at(Store, 3), at(Fetch, 3)], [200, 200]);
    assert_eq!(at(Fetch, 2), 12, "a stored line goes on to the next level before it moves up to l1i");
    assert_eq!(hierarchy.counts(1, Store).writebacks, 1, "of line 2 by l1d");
    assert_eq!(hierarchy.counts(2, Fetch).writebacks, 1, "of line 2 by l2, to memory");
}

#[test]
fn a_store_waits_for_a_place_in_the_write_buffer() {
    let buffer = Some(WriteBufferSpec { entries: 2, drain: 10 });
    let l1 =
        CacheSpec { stores: StoreRule::Through, write_buffer: buffer, ..plain("l1", 1, &Requester::ALL) };
    let l2 = plain("l2", 2, &Requester::ALL);
    let caches = [l1, l2];
    check(&caches, true).unwrap();
    let mut hierarchy = Hierarchy::new(&caches, 200);
    let mut store_at = |time| {
        hierarchy.set_time(time);
        access(&mut hierarchy, Requester::Store, CacheAddress::same(0), 8)
    };
    // The first store misses memory's caches: 196 cycles beyond the second level's latency.
    assert_eq!(store_at(0), 196);
    assert_eq!([store_at(1000), store_at(1001), store_at(1002)], [0, 0, 8], "the first has drained at 1010");
    assert_eq!(store_at(1010), 10, "the second at 1020");
    assert_eq!(store_at(1041), 0, "all have drained but the last");
    assert_eq!(hierarchy.counts(0, Requester::Store).write_stall_cycles, 18);
}

/// Lines 0, 8 and 16 have the same first place of eight; 4 has it as its second.
#[test]
fn a_column_associative_cache_swaps_a_line_back_to_its_first_place() {
    let organisation = CacheOrganisation::Column { slow_latency: 6 };
    let geometry = Geometry::new(8, Some(1)).unwrap();
    let caches = [CacheSpec { organisation, geometry, ..plain("l1", 1, &Requester::ALL) }];
    check(&caches, true).unwrap();
    let mut hierarchy = Hierarchy::new(&caches, 200);
    let mut at = |line: u64| {
        let served = hierarchy.access(Requester::Load, CacheAddress::same(line * 64));
        hierarchy.latency(served)
    };
    assert_eq!([at(0), at(8), at(8), at(0), at(0), at(8)], [200, 200, 4, 6, 4, 6]);
    assert_eq!([at(4), at(0)], [200, 200], "4 takes its first place from 0, which was moved there");
    assert_eq!([at(8), at(4)], [6, 200], "0 moved 8 on, which took the place from 4");
    assert_eq!(hierarchy.counts(0, Requester::Load).slow_hits, 3);
}

#[test]
fn of_two_ways_the_last_used_is_faster() {
    let organisation = CacheOrganisation::Pseudo { slow_latency: 6 };
    let geometry = Geometry::new(16, Some(2)).unwrap();
    let caches = [CacheSpec { organisation, geometry, ..plain("l1", 1, &Requester::ALL) }];
    check(&caches, true).unwrap();
    let mut hierarchy = Hierarchy::new(&caches, 200);
    let found = [0, 8, 8, 0, 0, 8, 16, 0, 8].map(|line: u64| {
        let served = hierarchy.access(Requester::Load, CacheAddress::same(line * 64));
        hierarchy.latency(served)
    });
    assert_eq!(found, [200, 200, 4, 6, 4, 6, 200, 200, 200]);
}

#[test]
fn the_condition_that_a_victim_cache_lacks_is_named() {
    use Requester::{Fetch, Load, Store, Walk};
    let above = plain("a", 1, &[Load, Store, Walk]);
    let victims =
        |level, serves: &[Requester]| CacheSpec { fills: CacheFills::Victims, ..plain("v", level, serves) };
    assert!(
        refused(&[victims(1, &[Walk])])
            .contains("cache `v` of level 1 has fills = \"victims\": choose a level")
    );
    assert!(
        refused(&[above.clone(), victims(3, &[Load, Store])])
            .ends_with("no cache of level 2 serves any of load, store")
    );
    assert!(
        refused(&[above.clone(), victims(2, &[Fetch])]).ends_with("no cache of level 1 serves any of fetch")
    );
    assert!(
        refused(&[above.clone(), victims(2, &[Load, Store])]).ends_with("add `walk` to the `serves` of `v`")
    );
    let through = CacheSpec { stores: StoreRule::Through, ..above.clone() };
    let all = victims(2, &Requester::ALL);
    assert!(
        refused(&[through.clone(), all.clone()]).contains("stores = \"through\": choose the same for `v`")
    );
    let all_through = CacheSpec { stores: StoreRule::Through, ..all.clone() };
    assert!(
        refused(&[above.clone(), all_through.clone()]).contains("stores = \"back\": choose the same for `v`")
    );
    for fits in [[through, all_through], [above, CacheSpec { shared: true, ..all }]] {
        check(&fits, true).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(300), failure_persistence: None, ..ProptestConfig::default() })]

    /// The twin drops lines from the other core's caches at once, the hierarchy when that core runs next.
    #[test]
    fn an_inclusive_cache_that_cores_share_counts_as_if_it_dropped_lines_at_once(
        (mut l1, mut l2, mut l3) in (cache(1), cache(2), cache(3)),
        turns in prop::collection::vec(
            (0..2usize, prop::collection::vec((0..4usize, 0..6_000u64), 0..20)), 0..60),
    ) {
        for cache in [&mut l1, &mut l2, &mut l3] {
            let back = (RequesterSet::from_iter(Requester::ALL), CacheFills::Misses, StoreRule::Back, None, false);
            (cache.serves, cache.fills, cache.stores, cache.write_buffer, cache.inclusive) = back;
        }
        (l3.inclusive, l3.shared, l3.line_shift) = (true, true, 7);
        let caches = [l1, l2, l3];
        check(&caches, true).unwrap();
        let (mut fast, mut twin) = ([0; 2].map(|_| Hierarchy::new(&caches, 200)), [0; 2].map(|_| slow(&caches)));
        let mut running = 0;
        for (core, accesses) in turns {
            if core != running {
                let [a, b] = &mut fast;
                if core == 1 { a.swap_shared(b) } else { b.swap_shared(a) }
                let [a, b] = &mut twin;
                std::mem::swap(&mut a.caches[2], &mut b.caches[2]);
                running = core;
            }
            for (requester, address) in accesses {
                let address = CacheAddress::same(address);
                let served = fast[core].access(Requester::ALL[requester], address);
                let expected = twin[core].access(requester, address.physical);
                prop_assert_eq!(fast[core].latency(served), expected);
                let shared = twin[core].caches[2].clone();
                twin[1 - core].drop_uncovered(&shared);
            }
        }
    }
}

#[test]
fn what_is_no_hierarchy_is_named() {
    let cache = plain;
    let (a, b) = (cache("a", 1, &[Requester::Walk]), cache("b", 1, &[Requester::Load, Requester::Walk]));
    assert!(refused(&[a.clone(), b]).contains("`a` and `b` of level 1 both serve `walk`"));
    assert!(refused(&[cache("a", 1, &[Requester::Load])]).contains("no cache serves `walk`"));
    assert!(refused(&[a.clone(), a.clone()]).contains("two caches are named `a`"));
    let l2 = cache("b", 2, &[Requester::Walk]);
    let slower = CacheSpec { latency: 5, ..a.clone() };
    assert!(
        refused(&[slower, l2.clone()]).contains("`b` of level 2 has latency = 4, less than the 5 of `a`")
    );
    let shared = CacheSpec { shared: true, ..a.clone() };
    assert!(refused(&[shared, l2.clone()]).contains("`b` lies below `a`, which all cores share"));
    let by_virtual = CacheSpec { address: AddressUsed::Virtual, ..l2 };
    assert!(refused(&[a.clone(), by_virtual]).contains("`b` has address = \"virtual\" and lies below `a`"));
    let buffer = |entries, drain| Some(WriteBufferSpec { entries, drain });
    let through = CacheSpec { stores: StoreRule::Through, ..cache("a", 1, &Requester::ALL) };
    let buffered = CacheSpec { write_buffer: buffer(4, 0), ..through };
    assert!(refused(std::slice::from_ref(&buffered)).contains("`a`: write_buffer: drain = 0 never fills it"));
    let shared = CacheSpec { shared: true, ..buffered };
    assert!(refused(&[shared]).contains("`a`: write_buffer: each core has a clock"));
    let back = CacheSpec { write_buffer: buffer(4, 2), ..a.clone() };
    assert!(refused(&[back]).contains("`a`: write_buffer: it holds stores on their way"));
    let column = CacheOrganisation::Column { slow_latency: 3 };
    let of = |cache: CacheSpec| refused(&[CacheSpec { organisation: column, ..cache }]);
    assert!(of(a.clone()).contains("`a`: organisation = \"column\": choose ways = 1, not 4"));
    let direct = CacheSpec { geometry: Geometry::new(64, Some(1)).unwrap(), ..a.clone() };
    assert!(of(direct).contains("slow_latency = 3 is less than latency = 4"));
    let inclusive = CacheSpec { inclusive: true, ..cache("b", 2, &[Requester::Walk]) };
    check(&[a.clone(), inclusive.clone()], true).unwrap();
    assert!(
        refused(std::slice::from_ref(&inclusive)).contains("`b` has inclusive = true, but no cache above it")
    );
    let by_virtual = CacheSpec { address: AddressUsed::Virtual, ..a.clone() };
    assert!(
        refused(&[by_virtual, inclusive.clone()]).contains("virtual addresses find lines of `a` above it")
    );
    let victims = CacheSpec { fills: CacheFills::Victims, ..inclusive };
    assert!(refused(&[a.clone(), victims]).contains("`b` has inclusive = true, but fills = \"victims\""));
    let short = CacheSpec { line_shift: 5, ..cache("b", 2, &[Requester::Walk]) };
    assert!(
        refused(&[a.clone(), short.clone()])
            .contains("`b` has lines of 32 bytes and lies below `a` with lines of 64")
    );
    let victims = CacheSpec { line_shift: 7, fills: CacheFills::Victims, ..short };
    assert!(refused(&[a, victims]).ends_with("takes those of `a`: choose line = 64"));
}
