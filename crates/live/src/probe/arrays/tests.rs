//! On simulated TLBs with known geometry and noise, the result is true or refused.

use super::*;
use pagewalk_setassoc::{Geometry, Replacement, SetArray, SetIndex};
use pagewalk_units::Draws;
use std::convert::Infallible;

/// Cost of a hit, of a hit in the second level, and of a walk.
const COSTS: [f64; 3] = [5.0, 12.0, 34.0];

/// A TLB of some levels, and a noisy clock.
struct Simulated {
    levels: Vec<(u32, u32, Replacement, SetIndex)>,
    draws: Draws,
    /// Most relative error of a repeat.
    noise: f64,
}

impl Simulated {
    fn exact(&self, cycle: Cycle) -> f64 {
        let mut arrays: Vec<SetArray> = self.levels.iter().map(array).collect();
        let mut cost = 0.0;
        // LRU repeats itself from the second turn on; others have to settle.
        let settled = self.levels.iter().all(|level| matches!(level.2, Replacement::Lru | Replacement::Fifo));
        let (warm, counted) = if settled { (2, 1) } else { (6, 6) };
        for turn in 0..warm + counted {
            for page in 0..cycle.pages {
                let number = page * cycle.stride;
                let hit = arrays.iter_mut().position(|array| array.touch(number, number));
                let missed = hit.unwrap_or(arrays.len());
                arrays[..missed].iter_mut().for_each(|array| _ = array.fill(number, number));
                let walked = missed == arrays.len();
                cost += if turn < warm {
                    0.0
                } else if walked {
                    COSTS[2]
                } else {
                    COSTS[missed]
                };
            }
        }
        cost / (cycle.pages * counted) as f64
    }

    /// Mostly a little too long, at times much.
    fn disturbed(&mut self, cost: f64) -> f64 {
        let mut part = || self.draws.below(1 << 20) as f64 / f64::from(1 << 20);
        let (usual, rare, much) = (part(), part(), part());
        let disturbed = if rare < 0.1 { 1.0 + much } else { 1.0 };
        cost * (1.0 + self.noise * usual) * disturbed
    }
}

fn array(&(sets, ways, replacement, index): &(u32, u32, Replacement, SetIndex)) -> SetArray {
    let geometry = Geometry::new(sets * ways, Some(ways)).expect("powers of two of sets");
    SetArray::new(geometry, replacement).expect("a shape that the policy can serve").indexed_by(index)
}

impl Prober for Simulated {
    type Error = Infallible;

    fn costs(&mut self, cycles: &[Cycle], rounds: usize) -> Result<Vec<Samples>, Infallible> {
        let all = cycles.iter().map(|&cycle| {
            let cost = self.exact(cycle);
            (0..rounds).map(|_| self.disturbed(cost)).collect()
        });
        Ok(all.collect())
    }
}

fn found(levels: Vec<(u32, u32, Replacement, SetIndex)>, noise: f64, seed: u64) -> Vec<MeasuredLevel> {
    let mut simulated = Simulated { levels, draws: Draws::new(seed), noise };
    match find(&mut simulated, &SearchPlan::new(8192, 1 << 15, 15)) {
        Ok(found) => found.levels,
        Err(never) => match never {},
    }
}

/// First and second levels of real and other cores: sets and ways; 1 set is fully associative.
const FIRST: [(u32, u32); 6] = [(16, 4), (16, 6), (1, 72), (1, 32), (8, 4), (1, 96)];
const SECOND: [(u32, u32); 6] = [(128, 12), (128, 16), (256, 6), (256, 8), (64, 8), (1, 512)];

fn check(replacement: Replacement, index: SetIndex, noise: f64) -> [usize; 2] {
    let (mut claimed, mut all) = (0, 0);
    for (number, &first) in FIRST.iter().enumerate() {
        for (offset, &second) in SECOND.iter().enumerate() {
            let ways_fit = |ways: u32| replacement != Replacement::TreePlru || ways.is_power_of_two();
            if !ways_fit(first.1) || !ways_fit(second.1) || (number + offset) % 2 == 1 {
                continue;
            }
            let shapes = vec![
                (first.0, first.1, replacement, SetIndex::Modulo),
                (second.0, second.1, replacement, index),
            ];
            let levels = found(shapes, noise, (number * 10 + offset) as u64);
            let truth = [first, second].map(|(sets, ways)| (u64::from(sets * ways), u64::from(ways)));
            assert!(levels.len() <= 2);
            all += 2;
            for (level, (entries, ways)) in levels.iter().zip(truth) {
                if level.refused.is_some() {
                    continue;
                }
                // More ways than are looked for look fully associative.
                let told = if ways > MOST_WAYS { entries } else { ways };
                assert_eq!(
                    (level.entries, level.ways),
                    (Some(entries), Some(told)),
                    "{first:?} {second:?} {replacement:?} {index} {noise}: {level:?}"
                );
                claimed += 1;
            }
        }
    }
    [claimed, all]
}

#[test]
fn least_recently_used_arrays_are_found_as_they_are() {
    for index in [SetIndex::Modulo, SetIndex::from_name("xor-7").expect("a known name")] {
        for noise in [0.0, 0.03] {
            let [claimed, all] = check(Replacement::Lru, index, noise);
            println!("lru {index} {noise}: {claimed} of {all}");
            // Fully associative first levels hide the ways of second levels.
            assert!(claimed * 10 >= all * 6, "{claimed} of {all} with noise {noise}");
        }
    }
}

#[test]
fn other_replacement_is_found_or_refused() {
    for replacement in
        [Replacement::TreePlru, Replacement::Random { seed: 3 }, Replacement::Fifo, Replacement::BitPlru]
    {
        let [claimed, all] = check(replacement, SetIndex::Modulo, 0.02);
        println!("{replacement:?}: {claimed} of {all}");
    }
}

#[test]
fn great_noise_is_refused() {
    for seed in 0..4 {
        let shape = |sets, ways| (sets, ways, Replacement::Lru, SetIndex::Modulo);
        for level in found(vec![shape(16, 4), shape(128, 12)], 0.5, seed) {
            let truth = [Some(64), Some(1536), None];
            assert!(truth.contains(&level.entries), "{level:?}");
        }
    }
}

#[test]
fn random_misses_grow_with_fewer_ways() {
    let all: Vec<f64> = [2, 4, 8, 16, 32].map(random_misses).to_vec();
    assert!(all.windows(2).all(|pair| pair[0] > pair[1]), "{all:?}");
    // The solution of m = 1 - 0.75^(5 m).
    assert!((1.0 - 0.75f64.powf(5.0 * all[1]) - all[1]).abs() < 1e-9, "{all:?}");
}
