//! Sites: a log of sampled misses.

use super::cml::Tuple;
use super::{MigrationModel, Target, TargetChoice, Wishes, part};
use pagewalk_units::Draws;

/// The policy.
#[derive(Clone, Debug)]
pub struct Sites {
    /// The colors.
    pub colors: u64,
    /// Misses from one sample to the next on average, and samples in a log that is analysed.
    pub lengths: (u64, usize),
    /// Samples above which a page competes.
    pub recolor_above: u64,
    /// Cycles of a sample and of an analysis.
    pub costs: (u64, u64),
    /// Chooses colors.
    pub target: Target,
    draws: Draws,
    /// Misses from the last sample to the next, and those of them that were.
    gap: Option<u64>,
    misses: u64,
    /// Samples taken, and those of them whose frames hold their pages still.
    taken: usize,
    log: Vec<(u64, Option<u64>)>,
}

impl Sites {
    /// The policy. `draws`: for times, and for colors.
    pub fn new(
        colors: u64,
        lengths: (u64, usize),
        recolor_above: u64,
        (target, draws): (TargetChoice, [Draws; 2]),
    ) -> Sites {
        let [draws, targets] = draws;
        let (costs, target) = ((87, 1800), Target::new(target, targets));
        let (gap, misses, taken, log) = (None, 0, 0, Vec::new());
        Sites { colors, lengths, recolor_above, costs, target, draws, gap, misses, taken, log }
    }

    fn draw_gap(&mut self) -> u64 {
        let period = self.lengths.0;
        let least = period - (period - 1) / 2;
        least + self.draws.below(period)
    }

    /// Frames in the order of their first samples.
    fn tuples(&self) -> Vec<Tuple> {
        let mut frames: Vec<u64> = Vec::new();
        for &(frame, _) in &self.log {
            if !frames.contains(&frame) {
                frames.push(frame);
            }
        }
        let tuple = |frame| {
            let of_it: Vec<_> = self.log.iter().filter(|sample| sample.0 == frame).collect();
            Tuple::new(frame, of_it.last().unwrap().1, of_it.len() as u64)
        };
        frames.into_iter().map(tuple).collect()
    }
}

impl MigrationModel for Sites {
    fn left_frame(&mut self, page: u64) {
        for stale in self.tuples().into_iter().filter(|tuple| tuple.page == Some(page)) {
            self.log.retain(|(frame, _)| *frame != stale.frame);
        }
    }

    fn cache_hit(&mut self, frame: u64) {
        self.target.references.push(frame % self.colors);
    }

    fn cache_missed(&mut self, frame: u64, page: Option<u64>, _: u64) -> Wishes {
        self.target.references.push(frame % self.colors);
        let gap = match self.gap {
            Some(gap) => gap,
            None => self.draw_gap(),
        };
        self.gap = Some(gap);
        self.misses += 1;
        if self.misses < gap {
            return Wishes::default();
        }
        (self.gap, self.misses) = (None, 0);
        self.taken += 1;
        self.log.push((frame, page));
        if self.taken < self.lengths.1 {
            return Wishes { cycles: self.costs.0, ..Wishes::default() };
        }
        let moves = part(&self.tuples(), self.recolor_above, self.colors, &mut self.target);
        let moves = moves.into_iter().map(|(_, wish)| wish).collect();
        self.taken = 0;
        self.log.clear();
        self.target.references.clear();
        Wishes { moves, cycles: self.costs.0 + self.costs.1, ..Wishes::default() }
    }
}
