//! Compares the hierarchy with the reference model of `oracle`: latencies and all counters, for random accesses.

use pagewalk_cache::{
    AddressUsed, CacheAddress, CacheFills, CacheSpec, Hierarchy, Requester, RequesterSet, StoreRule, check,
};
use pagewalk_oracle::{Memories, Memory, ReplacementModel};
use pagewalk_setassoc::{Geometry, Replacement};
use proptest::prelude::*;

fn cache(name: &'static str, level: u8, serves: &'static [Requester]) -> impl Strategy<Value = CacheSpec> {
    let replacement = prop::sample::select(&Replacement::NAMES[..]);
    (0..5u32, 1..=4u32, replacement, any::<[bool; 2]>()).prop_map(move |(sets, ways, replacement, rules)| {
        let [writes_through, is_virtual] = rules;
        let replacement = Replacement::from_name(replacement, 3).expect("one of the names");
        let ways = (ways..).find(|&ways| replacement.serves(ways as usize).is_ok()).expect("so many or more");
        CacheSpec {
            name: name.to_owned(),
            level,
            serves: serves.iter().copied().collect(),
            line_shift: 6,
            geometry: Geometry::new(ways << sets, Some(ways)).expect("a power of two of sets"),
            replacement,
            latency: u64::from(level) * 10,
            shared: false,
            stores: if writes_through { StoreRule::Through } else { StoreRule::Back },
            address: if is_virtual { AddressUsed::Virtual } else { AddressUsed::Physical },
            fills: CacheFills::Misses,
        }
    })
}

/// A victim cache of a few lines below a cache, which is write-back.
fn with_victims(above: &mut CacheSpec, lines: u32) -> CacheSpec {
    above.stores = StoreRule::Back;
    CacheSpec {
        name: format!("{}_victims", above.name),
        level: above.level + 1,
        geometry: Geometry::new(lines, None).unwrap(),
        replacement: Replacement::Lru,
        latency: above.latency + 5,
        fills: CacheFills::Victims,
        ..above.clone()
    }
}

fn slow(caches: &[CacheSpec]) -> Memories {
    let memory = |spec: &CacheSpec| Memory {
        level: spec.level,
        serves: Requester::ALL.map(|requester| spec.serves.has(requester)),
        held: ReplacementModel::new(
            spec.geometry.sets(),
            spec.geometry.ways(),
            spec.replacement.name(),
            spec.replacement.seed().unwrap_or(0),
            "modulo",
        ),
        latency: spec.latency,
        lookups: [0; 4],
        hits: [0; 4],
        writes_through: spec.stores == StoreRule::Through,
        is_virtual: spec.address == AddressUsed::Virtual,
        holds_victims: spec.fills == CacheFills::Victims,
    };
    Memories { caches: caches.iter().map(memory).collect(), line: 64, latency: 200, stall_cycles: 0 }
}

fn caches() -> impl Strategy<Value = Vec<CacheSpec>> {
    use Requester::{Fetch, Load, Store, Walk};
    (
        cache("l1i", 1, &[Fetch]),
        prop_oneof![cache("l1d", 1, &[Load, Store, Walk]), cache("l1d", 1, &[Load, Store])],
        cache("l2", 2, &[Fetch, Load, Store, Walk]),
        prop::option::of(cache("l4", 4, &[Fetch, Load, Walk])),
        prop::option::of(1..9u32),
    )
        .prop_map(|(l1i, l1d, mut l2, last, victims)| {
            let victims = victims.map(|lines| with_victims(&mut l2, lines));
            [l1i, l1d, l2].into_iter().chain(victims).chain(last).collect()
        })
}

/// Random cases per run; `PAGEWALK_CASES` makes it a long one.
fn cases() -> u32 {
    std::env::var("PAGEWALK_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(300)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_counter_equals_the_oracles(
        caches in caches(),
        accesses in prop::collection::vec((0..4usize, 0..12_000u64, 1..100u64), 0..800),
    ) {
        check(&caches, true).unwrap();
        let (mut fast, mut slow) = (Hierarchy::new(&caches, 200), slow(&caches));
        for (requester, address, bytes) in accesses {
            // Frames in another order than pages, so that virtual and physical lines fall into other sets.
            let physical = (address & !0xfff) * 7 % 0x1_0000 + (address & 0xfff);
            let both = CacheAddress { physical, logical: address };
            if bytes < 50 {
                let served = fast.access(Requester::ALL[requester], both);
                prop_assert_eq!(fast.latency(served), slow.access_mapped(requester, [physical, address]));
            } else {
                let bytes = bytes.min(0x1000 - address % 0x1000);
                let stalled = fast.access_bytes(Requester::ALL[requester], both, bytes);
                prop_assert_eq!(stalled, slow.access_bytes(requester, [physical, address], bytes));
            }
        }
        for (index, cache) in slow.caches.iter().enumerate() {
            for requester in Requester::ALL {
                let counts = fast.counts(index, requester);
                let expected = (cache.lookups[requester as usize], cache.hits[requester as usize]);
                prop_assert_eq!((counts.lookups, counts.hits), expected);
            }
        }
    }
}

#[test]
fn what_is_no_hierarchy_is_named() {
    let cache = |name: &str, level: u8, serves: &[Requester]| CacheSpec {
        name: name.to_owned(),
        level,
        serves: serves.iter().copied().collect::<RequesterSet>(),
        line_shift: 6,
        geometry: Geometry::new(64, Some(4)).unwrap(),
        replacement: Replacement::Lru,
        latency: 4,
        shared: false,
        stores: StoreRule::default(),
        address: AddressUsed::default(),
        fills: CacheFills::default(),
    };
    let refused = |caches: &[CacheSpec]| check(caches, true).unwrap_err().to_string();
    let (a, b) = (cache("a", 1, &[Requester::Walk]), cache("b", 1, &[Requester::Load, Requester::Walk]));
    assert!(refused(&[a.clone(), b]).contains("`a` and `b` of level 1 both serve `walk`"));
    assert!(refused(&[cache("a", 1, &[Requester::Load])]).contains("no cache serves `walk`"));
    assert!(refused(&[a.clone(), a.clone()]).contains("two caches are named `a`"));
    let victims = CacheSpec { fills: CacheFills::Victims, ..cache("v", 2, &[Requester::Load]) };
    assert!(
        refused(&[a.clone(), victims])
            .contains("cache `v` of level 2 has fills = \"victims\": the level above")
    );
    let wide = CacheSpec { line_shift: 7, ..cache("b", 2, &[Requester::Walk]) };
    assert!(refused(&[a, wide]).contains("`a` has lines of 64 bytes, `b` of 128"));
}
