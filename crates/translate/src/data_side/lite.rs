//! Lite: switches off ways of first-level arrays.
//!
//! At the end of each interval, counters of hits by rank give the misses that halving an array's ways would have added.
//! Lite halves one array after the other, as long as all added misses together stay within a threshold. It switches all
//! ways on again when misses rise by the threshold, and sometimes at random, because ways that are off count nothing.
//!
//! Source: Karakostas 2016, section 5.4.2 and algorithm 5.1, whose test of growth and whose prose differ: see
//! [`LiteHistory`].

use super::spec::{LiteHistory, LiteSpec};
use super::way_array::WayArray;
use pagewalk_units::Draws;

/// The range of a random draw.
const CHANCES: u64 = 1 << 32;

#[derive(Clone, Debug)]
pub(super) struct Lite {
    spec: LiteSpec,
    /// Its arrays, by index among level 1's.
    arrays: Vec<usize>,
    draws: Draws,
    /// Misses per thousand instructions to compare with; none in the first interval.
    previous: Option<f64>,
    /// Misses of level 1 since the last decision.
    pub misses: u64,
    /// Instructions at the last decision.
    from: u64,
    pub intervals: u64,
    pub reactivations: [u64; 2],
}

impl Lite {
    /// `arrays`: the specification's arrays, by index among level 1's.
    pub fn new(spec: &LiteSpec, arrays: Vec<usize>) -> Lite {
        Lite {
            draws: Draws::new(spec.seed),
            arrays,
            spec: spec.clone(),
            previous: None,
            misses: 0,
            from: 0,
            intervals: 0,
            reactivations: [0; 2],
        }
    }

    /// Instructions at which the next decision is due.
    pub fn due(&self) -> u64 {
        self.from.saturating_add(self.spec.interval)
    }

    fn exceeds(&self, misses: f64, reference: f64) -> bool {
        let borne = match self.spec.relative {
            true => (self.spec.threshold * reference).max(self.spec.floor),
            false => self.spec.threshold,
        };
        misses - reference >= borne
    }

    /// Decides at `instructions`; returns tags of entries dropped with their ways. `arrays`: level 1's; `references`:
    /// the design's references so far.
    pub fn decide(&mut self, arrays: &mut [WayArray], instructions: u64, references: u64) -> Vec<u64> {
        let mut dropped = Vec::new();
        let executed = (instructions - self.from).max(1) as f64;
        let rate = |misses: u64| misses as f64 * 1000.0 / executed;
        let actual = rate(self.misses);
        self.intervals += 1;
        let by_chance = (self.draws.below(CHANCES) as f64) < self.spec.reactivation * CHANCES as f64;
        let grown = self.previous.is_some_and(|previous| self.exceeds(actual, previous));
        if by_chance || grown {
            self.reactivations[usize::from(!by_chance)] += 1;
            for &at in &self.arrays {
                let all = arrays[at].geometry().ways();
                dropped.extend(arrays[at].set_active(all, references));
            }
        } else {
            let mut potential = self.misses;
            for &at in &self.arrays {
                let ways = self.shrink(&arrays[at], &mut potential, rate, actual);
                if ways < arrays[at].active() {
                    dropped.extend(arrays[at].set_active(ways, references));
                }
            }
        }
        let keeps = self.spec.history == LiteHistory::Minimum;
        self.previous = Some(self.previous.filter(|&previous| keeps && previous <= actual).unwrap_or(actual));
        arrays.iter_mut().for_each(|array| array.ranks.fill(0));
        (self.misses, self.from) = (0, instructions);
        dropped
    }

    /// Halves an array's ways while the threshold allows; adds the expected misses to `potential`. Returns the ways
    /// left.
    fn shrink(&self, array: &WayArray, potential: &mut u64, rate: impl Fn(u64) -> f64, actual: f64) -> usize {
        let mut ways = array.active();
        while ways > 1 {
            let lost = array.ranks[ways.ilog2() as usize];
            if self.exceeds(rate(*potential + lost), actual) {
                break;
            }
            *potential += lost;
            ways /= 2;
        }
        ways
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewalk_setassoc::Geometry;

    fn spec(threshold: f64, relative: bool, history: LiteHistory) -> LiteSpec {
        LiteSpec {
            tlbs: Vec::new(),
            threshold,
            relative,
            floor: 0.0,
            interval: 1000,
            reactivation: 0.0,
            seed: 1,
            history,
        }
    }

    fn arrays(count: usize) -> Vec<WayArray> {
        (0..count).map(|_| WayArray::new(Geometry::new(64, Some(4)).unwrap())).collect()
    }

    /// Algorithm 5.1: one array's expected misses carry over to the next.
    #[test]
    fn losses_add_up_over_the_arrays() {
        let mut arrays = arrays(2);
        let mut lite = Lite::new(&spec(1.0, false, LiteHistory::Previous), vec![0, 1]);
        lite.misses = 10;
        // Each alone is within the threshold: 0.7 more misses per thousand instructions.
        (arrays[0].ranks[2], arrays[1].ranks[2]) = (7, 7);
        (arrays[0].ranks[1], arrays[1].ranks[1]) = (50, 50);
        lite.decide(&mut arrays, 10_000, 0);
        assert_eq!([arrays[0].active(), arrays[1].active()], [2, 4]);
    }

    #[test]
    fn several_halvings_in_one_decision_end_at_one_way() {
        let mut arrays = arrays(1);
        let mut lite = Lite::new(&spec(0.1, false, LiteHistory::Previous), vec![0]);
        lite.decide(&mut arrays, 1000, 0);
        assert_eq!(arrays[0].active(), 1);
        lite.misses = 5;
        lite.decide(&mut arrays, 2000, 0);
        assert_eq!((arrays[0].active(), lite.reactivations), (4, [0, 1]), "misses have grown");
    }

    /// If misses rise for good, the algorithm's running minimum keeps all ways on; the prose's previous interval does
    /// not.
    #[test]
    fn the_two_histories_differ_when_misses_rise_for_good() {
        for (history, active) in [(LiteHistory::Previous, 1), (LiteHistory::Minimum, 4)] {
            let mut arrays = arrays(1);
            let mut lite = Lite::new(&spec(0.1, false, history), vec![0]);
            for (interval, misses) in [0, 50, 50, 50].into_iter().enumerate() {
                lite.misses = misses;
                lite.decide(&mut arrays, (interval as u64 + 1) * 1000, 0);
            }
            assert_eq!(arrays[0].active(), active, "{history:?}");
        }
    }
}
