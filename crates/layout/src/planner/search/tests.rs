use super::*;
use crate::evictions::ArraySpec;
use crate::objects::Owners;
use crate::objects::header_for_tests as header;
use crate::planner::Movables;
use pagewalk_setassoc::{Geometry, LruArray, SetIndex};
use pagewalk_trace::Origin;
use pagewalk_units::Draws;
use pagewalk_units::Vpn;

const OBJECTS: usize = 4;

/// Pages with and without objects; and a sequence of references to them.
fn program(draws: &mut Draws) -> (Vec<Page>, Vec<u32>) {
    let pages: Vec<Page> = (0..40)
        .map(|number| {
            let object = draws.below(OBJECTS as u64 + 1) as usize;
            Page {
                page: Vpn(1000 + 7 * number + draws.below(5)),
                object: (object < OBJECTS).then_some(object),
            }
        })
        .collect();
    let mut near = 0;
    let stream = (0..3000)
        .map(|_| {
            near = if draws.below(4) == 0 { draws.below(40) } else { (near + draws.below(3)) % 40 };
            near as u32
        })
        .collect();
    (pages, stream)
}

fn reuses(stream: &[u32], pages: &[Page], geometry: Geometry) -> ArrayReuses {
    let array = ArraySpec { name: "a".into(), geometry, index: SetIndex::Modulo, fetches: true, data: true };
    let mut reuses = ArrayReuses::of_stream(array, stream, 2 * geometry.entries());
    reuses.group(pages);
    reuses
}

/// Simulated misses with the objects shifted.
fn simulated(stream: &[u32], pages: &[Page], shifts: &[u64], geometry: Geometry) -> u64 {
    let mut array = LruArray::new(geometry);
    let place = |page: u32| {
        let Page { page, object } = pages[page as usize];
        // Far from all others, as objects are.
        page.0 + object.map_or(0, |object| (object as u64 + 1) * (1 << 20) + shifts[object])
    };
    let misses = stream.iter().filter(|&&page| {
        let vpn = place(page);
        let hit = array.touch(vpn, vpn);
        if !hit {
            array.fill(vpn, vpn);
        }
        !hit
    });
    misses.count() as u64
}

/// Reuses miss exactly as an array does, except those left out as too far apart, which then all miss.
#[test]
fn misses_are_those_of_an_array() {
    let mut draws = Draws::new(1);
    for (sets, ways) in [(1, 4), (4, 1), (4, 2), (8, 4), (16, 4)] {
        let geometry = Geometry::new(sets * ways, Some(ways)).unwrap();
        let mut near = 0;
        for _ in 0..20 {
            let (pages, stream) = program(&mut draws);
            let kept = reuses(&stream, &pages, geometry);
            let shifts: Vec<u64> = (0..OBJECTS).map(|_| draws.below(sets.into())).collect();
            let (priced, found) =
                (misses(&kept, &pages, &shifts), simulated(&stream, &pages, &shifts, geometry));
            assert!(priced >= found, "{priced} {found}");
            assert!(priced - found <= kept.beyond, "{priced} {found}");
            near += u64::from(priced == found);
        }
        assert!(sets < 8 || near == 20, "all 40 pages lie between at most: {near}");
    }
}

/// The costs computed for all shifts of an object equal the misses of each.
#[test]
fn costs_of_all_shifts_are_those_of_each() {
    let mut draws = Draws::new(2);
    for (sets, ways) in [(1, 2), (4, 1), (8, 2), (16, 4)] {
        let geometry = Geometry::new(sets * ways, Some(ways)).unwrap();
        for _ in 0..10 {
            let (pages, stream) = program(&mut draws);
            let kept = reuses(&stream, &pages, geometry);
            let mut shifts: Vec<u64> = (0..OBJECTS).map(|_| draws.below(sets.into())).collect();
            let mut parts = ReuseState::new(&kept, &pages, OBJECTS);
            (0..OBJECTS).for_each(|object| parts.shift(object, shifts[object]));
            for object in 0..OBJECTS {
                let costs = parts.costs(object);
                let missed = |shifts: &[u64]| misses(&kept, &pages, shifts);
                // Reuses that do not involve it miss at any shift.
                let others = missed(&shifts) - costs[shifts[object] as usize];
                for (shift, cost) in costs.iter().enumerate() {
                    shifts[object] = shift as u64;
                    assert_eq!(missed(&shifts), cost + others);
                }
                parts.shift(object, shifts[object]);
            }
        }
    }
}

/// Objects that compete for a set separate, from any start.
#[test]
fn objects_that_fight_part() {
    let pages: Vec<Page> = (0..4).map(|n| Page { page: Vpn(64 * n), object: Some(n as usize) }).collect();
    let stream: Vec<u32> = (0..4000).map(|n| n % 4).collect();
    let geometry = Geometry::new(8, Some(1)).unwrap();
    let array = reuses(&stream, &pages, geometry);
    let found = StreamReuses {
        arrays: vec![array],
        pages,
        references: vec![0; 4],
        movables: Movables::default().with_files(4),
        owners: Owners::new(&header(Origin::Start)),
    };
    let best = best(&found, 2, 7).remove(0);
    assert_eq!(misses(&found.arrays[0], &found.pages, &[0; 4]), 4000);
    assert_eq!(misses(&found.arrays[0], &found.pages, &best.shifts), 4, "{best:?}");
    assert!((best.relative - 4.0 / 4000.0).abs() < 1e-12);
}
