//! A hierarchy that leaves its first level to another one counts as one that has all its levels.

use pagewalk_cache::{
    CacheAddress, CacheFills, CacheSpec, DataSource, Hierarchy, PassedLine, Requester, StoreRule, check,
    shares_first_level,
};
use pagewalk_setassoc::Geometry;
use proptest::prelude::*;

const PROGRAM: [Requester; 3] = [Requester::Fetch, Requester::Load, Requester::Store];

/// Sets as a power of two, ways, and whether victims fill it.
type Shape = (u32, u32, bool);

fn cache(level: u8, serves: &[Requester], (sets, ways, is_victims): Shape) -> CacheSpec {
    let geometry = Geometry::new(ways << sets, Some(ways)).expect("a power of two of sets");
    let fills = if is_victims { CacheFills::Victims } else { CacheFills::Misses };
    CacheSpec {
        fills,
        ..CacheSpec::plain(&format!("l{level}"), level, serves, geometry, u64::from(level) * 10)
    }
}

fn caches(first: Shape, second: Shape, third: Shape) -> Vec<CacheSpec> {
    let caches = vec![
        cache(1, &PROGRAM, (first.0, first.1, false)),
        cache(2, &Requester::ALL, (second.0, second.1, false)),
        cache(3, &Requester::ALL, third),
    ];
    check(&caches, true).expect("a hierarchy");
    caches
}

/// Accesses a line; returns the cycles that it waits.
fn access(hierarchy: &mut Hierarchy, requester: Requester, address: CacheAddress) -> u64 {
    match requester {
        Requester::Walk => {
            let served = hierarchy.access(requester, address);
            hierarchy.latency(served)
        }
        _ if hierarchy.repeats(requester, address, 1) => 0,
        _ => hierarchy.access_lines(requester, address, 1, |_| {}),
    }
}

/// Lets a line pass; returns the cycles that it waits.
fn pass(below: &mut Hierarchy, line: PassedLine) -> u64 {
    let served = below.pass(line);
    wait(below, line, served)
}

/// The same by the nearest cache alone, if that has the line.
fn pass_near_first(below: &mut Hierarchy, line: PassedLine) -> u64 {
    let nearest = below.nearest_in_order().expect("all caches are in order");
    match below.pass_near(nearest, [line].into_iter()) {
        (0, cycles) => {
            assert_eq!(cycles, 0);
            let served = below.pass_far(nearest, line);
            wait(below, line, served)
        }
        (_, cycles) => cycles,
    }
}

fn wait(below: &Hierarchy, line: PassedLine, served: Option<DataSource>) -> u64 {
    served.zip(line.requester()).map_or(0, |(served, requester)| below.wait(requester, served))
}

proptest! {
    #[test]
    fn what_passes_is_all_that_lower_levels_need(
        first in (0..2u32, 1..3u32, any::<bool>()),
        lower in prop::array::uniform4((0..3u32, 1..4u32, any::<bool>())),
        accesses in prop::collection::vec((0..4usize, 0..40u64), 1..300),
        is_near_first in any::<bool>(),
    ) {
        let (own, other) = (caches(first, lower[0], lower[1]), caches(first, lower[2], lower[3]));
        prop_assert!(shares_first_level(&own, &other));
        let (mut first, mut whole) = (Hierarchy::first_level(&own, 100), Hierarchy::new(&other, 100));
        let mut below = Hierarchy::below_first_level(&other, 100);
        let (mut expected, mut found) = (0, 0);
        for &(requester, line) in &accesses {
            let (requester, address) = (Requester::ALL[requester], CacheAddress::same(line << 6));
            expected += access(&mut whole, requester, address);
            if requester == Requester::Walk {
                found += access(&mut below, requester, address);
                continue;
            }
            access(&mut first, requester, address);
            for &line in first.passed() {
                below.prefetch(line.requester().unwrap_or(Requester::Load), line.address());
                found += if is_near_first { pass_near_first(&mut below, line) } else { pass(&mut below, line) };
            }
            first.clear_passed();
        }
        prop_assert_eq!(found, expected);
        for requester in Requester::ALL {
            let of_lower = [1, 2].map(|index| whole.counts(index, requester));
            prop_assert_eq!([0, 1].map(|index| below.counts(index, requester)), of_lower);
        }
    }
}

#[test]
fn first_levels_that_others_change_are_not_shared() {
    let plain = caches((1, 2, false), (2, 2, false), (3, 2, false));
    let with = |change: fn(&mut Vec<CacheSpec>)| {
        let mut caches = plain.clone();
        change(&mut caches);
        shares_first_level(&caches, &caches)
    };
    assert!(with(|_| {}));
    assert!(!with(|caches| caches[2].inclusive = true));
    assert!(!with(|caches| caches[1].fills = CacheFills::Victims));
    assert!(!with(|caches| caches[0].serves = Requester::ALL.into_iter().collect()));
    assert!(!with(|caches| caches[0].stores = StoreRule::Through));
    assert!(!with(|caches| caches[0].serves = [Requester::Load].into_iter().collect()));
    let other = caches((1, 1, false), (2, 2, false), (3, 2, false));
    assert!(!shares_first_level(&plain, &other));
}
