//! On simulated TLBs with known replacement and noise, the verdict is true or undecided.

use super::*;
use crate::probe::steps::CurveStep;
use pagewalk_setassoc::SetIndex;
use std::convert::Infallible;

/// Cost of a hit, of a hit in the second level, and of a walk.
const COSTS: [f64; 3] = [5.0, 12.0, 34.0];

/// Two levels, and a noisy clock.
struct Simulated {
    levels: Vec<(u32, u32, Replacement, SetIndex)>,
    draws: Draws,
    /// Most relative error of a repeat.
    noise: f64,
}

impl Simulated {
    fn arrays(&self) -> Vec<SetArray> {
        let array = |&(sets, ways, replacement, index): &(u32, u32, Replacement, SetIndex)| {
            let geometry = Geometry::new(sets * ways, Some(ways)).unwrap();
            SetArray::new(geometry, replacement).unwrap().indexed_by(index)
        };
        self.levels.iter().map(array).collect()
    }

    /// Access cost after two warm-up turns, for as long as a repeat takes.
    fn exact(arrays: &mut [SetArray], pattern: &[u64]) -> f64 {
        let counted = TIMED_ACCESSES.max(2 * pattern.len());
        let mut cost = 0.0;
        for (step, &page) in pattern.iter().cycle().take(WARM * pattern.len() + counted).enumerate() {
            let hit = arrays.iter_mut().position(|array| array.touch(page, page));
            let missed = hit.unwrap_or(arrays.len());
            arrays[..missed].iter_mut().for_each(|array| _ = array.insert(page, page));
            if step >= WARM * pattern.len() {
                cost += COSTS[if missed == arrays.len() { 2 } else { missed }];
            }
        }
        cost / counted as f64
    }

    /// Mostly a little too long, at times much.
    fn disturbed(&mut self, cost: f64) -> f64 {
        let mut part = || self.draws.below(1 << 20) as f64 / f64::from(1 << 20);
        let (usual, rare, much) = (part(), part(), part());
        cost * (1.0 + self.noise * usual) * if rare < 0.1 { 1.0 + much } else { 1.0 }
    }
}

impl Repeater for Simulated {
    type Error = Infallible;

    fn patterns(&mut self, patterns: &[Vec<u64>], rounds: usize) -> Result<Vec<Samples>, Infallible> {
        let mut arrays = self.arrays();
        let mut all = vec![Samples::new(); patterns.len()];
        for _ in 0..rounds {
            for (pattern, samples) in patterns.iter().zip(&mut all) {
                let cost = Simulated::exact(&mut arrays, pattern);
                samples.push(self.disturbed(cost));
            }
        }
        Ok(all)
    }
}

/// A level as `arrays` would report it: strides from the set count on hit one set.
fn level(sets: u32, ways: u32, known: bool) -> MeasuredLevel {
    let (entries, ways) = (u64::from(sets * ways), u64::from(ways));
    let conflict = |stride| ConflictBounds { stride, hits: ways, misses: 2 * ways, sharp: known };
    let strides = (0..4).map(|bit| u64::from(sets) << bit);
    MeasuredLevel {
        step: CurveStep { below: 5.0, above: 12.0, onset: entries, half: entries + 8, noise: 0.1 },
        entries: known.then_some(entries),
        ways: known.then_some(ways),
        refused: (!known).then(|| "not sharp".to_owned()),
        conflicts: if sets == 1 { Vec::new() } else { strides.map(conflict).collect() },
    }
}

fn told(
    first: (u32, u32, Replacement),
    second: (u32, u32, Replacement),
    known: bool,
    noise: f64,
) -> Vec<ReplacementFinding> {
    let levels = [level(first.0, first.1, true), level(second.0, second.1, known)];
    let shapes = [first, second].map(|(sets, ways, replacement)| (sets, ways, replacement, SetIndex::Modulo));
    let mut simulated = Simulated { levels: shapes.to_vec(), draws: Draws::new(7), noise };
    match find(&mut simulated, &levels, 11) {
        Ok(replaced) => replaced,
        Err(never) => match never {},
    }
}

/// Policies that TLBs may have.
fn policies() -> impl Iterator<Item = Replacement> {
    let all = Replacement::NAMES.into_iter().map(|name| Replacement::from_name(name, 3).unwrap());
    all.filter(|policy| policy.relevant_hits() != RelevantHits::Each)
}

/// Whether it was decided; a decision must be true.
fn is_true(told: &ReplacementFinding, truth: Replacement, ways: u32, place: &str) -> bool {
    match told {
        ReplacementFinding::Nearest(nearest) => {
            assert_eq!(
                (nearest.policy.name(), nearest.ways),
                (truth.name(), u64::from(ways)),
                "{place}: {nearest:?}"
            );
            true
        }
        ReplacementFinding::Undecided(why) => {
            println!("{place}: {}, {ways} ways: {why}", truth.name());
            false
        }
    }
}

/// First levels of real cores: sets and ways.
const FIRST: [(u32, u32); 3] = [(16, 4), (16, 6), (8, 8)];
/// Second levels.
const SECOND: [(u32, u32); 3] = [(128, 12), (128, 8), (256, 16)];

#[test]
fn each_policy_of_a_second_level_is_told() {
    for noise in [0.0, 0.02] {
        let (mut decided, mut all) = (0, 0);
        for (first, second) in FIRST.into_iter().zip(SECOND) {
            for policy in policies().filter(|policy| policy.serves(second.1 as usize).is_ok()) {
                let lru = (first.0, first.1, Replacement::Lru);
                let told = told(lru, (second.0, second.1, policy), true, noise);
                all += 1;
                decided += usize::from(is_true(&told[1], policy, second.1, &format!("{first:?} {noise}")));
            }
        }
        println!("second levels, noise {noise}: {decided} of {all} decided");
        assert!(decided * 10 >= all * 7, "{decided} of {all}");
    }
}

#[test]
fn each_policy_of_a_first_level_is_told() {
    let (mut decided, mut all) = (0, 0);
    for first in FIRST {
        for policy in policies().filter(|policy| {
            policy.serves(first.1 as usize).is_ok() && policy.relevant_hits() != RelevantHits::Each
        }) {
            let told = told((first.0, first.1, policy), (128, 16, Replacement::Lru), true, 0.02);
            all += 1;
            decided += usize::from(is_true(&told[0], policy, first.1, "first"));
        }
    }
    println!("first levels: {decided} of {all} decided");
    assert!(decided * 10 >= all * 7, "{decided} of {all}");
}

/// Random replacement blurs where pages begin to miss; then the ways come from the policy's fit.
#[test]
fn ways_that_were_refused_come_with_the_policy() {
    let mut decided = 0;
    for policy in [Replacement::Random { seed: 5 }, Replacement::NotMru { seed: 5 }, Replacement::BitPlru] {
        let told = told((16, 4, Replacement::Lru), (128, 8, policy), false, 0.01);
        decided += usize::from(is_true(&told[1], policy, 8, "ways refused"));
    }
    assert!(decided >= 2, "{decided} of 3");
}

#[test]
fn fully_associative_first_levels_are_told_and_kept_out_of_the_second() {
    for policy in [Replacement::Lru, Replacement::Fifo, Replacement::Random { seed: 5 }] {
        let told = told((1, 72, policy), (128, 16, policy), true, 0.01);
        // With this many ways, one more or less makes no difference.
        let decided = is_true(&told[0], policy, 72, "first");
        assert!(decided || policy.draws(), "{policy:?}");
        is_true(&told[1], policy, 16, "second behind it");
    }
}

#[test]
fn great_noise_decides_nothing_false() {
    for policy in policies().filter(|policy| policy.serves(8).is_ok()) {
        let told = told((16, 4, Replacement::Lru), (128, 8, policy), true, 0.6);
        is_true(&told[1], policy, 8, "great noise");
    }
}

#[test]
fn nothing_measured_is_undecided() {
    struct Mute;
    impl Repeater for Mute {
        type Error = Infallible;

        fn patterns(&mut self, patterns: &[Vec<u64>], _: usize) -> Result<Vec<Samples>, Infallible> {
            Ok(vec![Samples::new(); patterns.len()])
        }
    }
    let levels = [level(16, 4, true), level(128, 8, false), level(1, 4096, true)];
    let Ok(told) = find(&mut Mute, &levels, 5);
    assert!(told.iter().all(|told| matches!(told, ReplacementFinding::Undecided(_))), "{told:?}");
}

#[test]
fn pages_come_again_behind_enough_others() {
    let mut draws = Draws::new(1);
    for (pages, apart) in [(9, 4), (13, 6), (24, 8)] {
        let pattern = at_random(pages, 20, apart, &mut draws);
        for (at, page) in pattern.iter().enumerate() {
            let next = (1..=apart as usize).map(|step| pattern[(at + step) % pattern.len()]);
            assert!(next.into_iter().all(|next| next != *page), "{pages}: {at} of {pattern:?}");
        }
        assert_eq!(pattern.len() as u64, 20 + pages * TIMES);
    }
}
