//! Tuning of the partition by hill climbing.
//!
//! After each window of `period` misses, a decision compares the window's cost with the previous window's:
//!
//! - more by over `threshold`: the last move was wrong, or the program has changed, so move back by `step` slots;
//! - less by over `threshold`: move on in the same direction;
//! - else stay; after `probe_after` such windows in a row, probe with one move in the last direction.
//!
//! The partition stays between `lower_min` and `lower_max`; a probe at an end reverses.
//!
//! Source: Uhlig et al. 1994, section 5.2.2, which says that the partition moves up, down or not at all after a fixed
//! number of misses, by whether the last change altered the cost significantly. It does not say how many misses, how
//! far, what is significant, or what divides the cost. A window has a fixed number of misses, so its cost alone is the
//! mean price of a miss; hence [`Objective::Instructions`] divides by the window's instructions. Without probes a
//! partition at rest never moves again while the program's behaviour stays the same.

use super::spec::{Objective, TuningSpec};

/// The tuner.
#[derive(Clone, Debug)]
pub struct Tuner {
    spec: TuningSpec,
    lower: u32,
    /// Whether the direction is towards more slots below the partition.
    up: bool,
    misses: u64,
    cycles: u64,
    /// Instructions at the window's start.
    begun: u64,
    /// The previous window's cost.
    before: Option<f64>,
    /// Windows since the last move.
    quiet: u32,
    moves: Vec<(u64, u32)>,
}

impl Tuner {
    /// Starts with `lower` slots below the partition.
    pub fn new(spec: TuningSpec, lower: u32) -> Tuner {
        Tuner {
            spec,
            lower,
            up: true,
            misses: 0,
            cycles: 0,
            begun: 0,
            before: None,
            quiet: 0,
            moves: vec![(0, lower)],
        }
    }

    /// Records misses and their cycles; returns the slots below the partition if it moves now.
    pub fn note(&mut self, misses: u64, cycles: u64, instructions: u64) -> Option<u32> {
        self.misses += misses;
        self.cycles = self.cycles.saturating_add(cycles);
        if self.misses < self.spec.period {
            return None;
        }
        let cost = match self.spec.objective {
            Objective::Instructions => {
                self.cycles as f64 / instructions.saturating_sub(self.begun).max(1) as f64
            }
            Objective::Misses => self.cycles as f64 / self.misses as f64,
        };
        (self.misses, self.cycles, self.begun) = (0, 0, instructions);
        let before = self.before.replace(cost);
        let helped = |before: f64| cost < before * (1.0 - self.spec.threshold);
        let hurt = |before: f64| cost > before * (1.0 + self.spec.threshold);
        match before {
            None => self.step(instructions),
            Some(before) if hurt(before) => {
                self.up = !self.up;
                self.step(instructions)
            }
            Some(before) if helped(before) => self.step(instructions),
            Some(_) => {
                self.quiet += 1;
                if self.quiet != self.spec.probe_after {
                    return None;
                }
                self.up ^= self.next() == self.lower;
                self.step(instructions)
            }
        }
    }

    /// The place after a move in the present direction.
    fn next(&self) -> u32 {
        let TuningSpec { step, lower_min, lower_max, .. } = self.spec;
        let next = if self.up { self.lower.saturating_add(step) } else { self.lower.saturating_sub(step) };
        next.clamp(lower_min, lower_max)
    }

    fn step(&mut self, instructions: u64) -> Option<u32> {
        self.quiet = 0;
        let next = self.next();
        if next == self.lower {
            return None;
        }
        self.lower = next;
        self.moves.push((instructions, next));
        Some(next)
    }

    /// Instructions and slots below the partition: at the start, and at each move.
    pub fn moves(&self) -> &[(u64, u32)] {
        &self.moves
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: TuningSpec = TuningSpec {
        period: 10,
        step: 1,
        threshold: 0.05,
        lower_min: 4,
        lower_max: 9,
        objective: Objective::Instructions,
        probe_after: 3,
    };

    /// Runs windows whose cost per instruction depends on the partition only.
    fn climb(spec: TuningSpec, windows: u64, cost: impl Fn(u32) -> u64) -> Vec<u32> {
        let mut tuner = Tuner::new(spec, 5);
        let mut lower = 5;
        let places = (1..=windows).map(|window| {
            lower = tuner.note(10, cost(lower) * 1000, window * 1000).unwrap_or(lower);
            lower
        });
        places.collect()
    }

    #[test]
    fn goes_on_while_it_helps_and_back_when_it_hurts() {
        let slope = |lower: u32| 100 + 20 * u64::from(lower.abs_diff(8));
        assert_eq!(climb(SPEC, 8, slope), [6, 7, 8, 9, 8, 7, 8, 9]);
    }

    #[test]
    fn rests_where_nothing_changes_and_probes() {
        assert_eq!(climb(SPEC, 8, |_| 100), [6, 6, 6, 7, 7, 7, 8, 8]);
        let literal = TuningSpec { probe_after: 0, ..SPEC };
        assert_eq!(climb(literal, 8, |_| 100), [6; 8]);
    }

    /// If misses divide the cost, more cheap misses look like an improvement.
    #[test]
    fn uhlig_1994_literal_objective_rewards_cheap_misses() {
        // Each slot less above the partition adds misses of 20 cycles, in fewer instructions.
        let windows = |objective: Objective| {
            let mut tuner = Tuner::new(TuningSpec { objective, ..SPEC }, 5);
            let (mut lower, mut now) = (5u32, 0);
            for _ in 0..4 {
                now += 1000 / u64::from(lower - 3);
                let cycles = 10 * (400 / u64::from(lower));
                lower = tuner.note(10, cycles, now).unwrap_or(lower);
            }
            lower
        };
        assert_eq!(windows(Objective::Misses), 9);
        assert!(windows(Objective::Instructions) < 6);
    }
}
