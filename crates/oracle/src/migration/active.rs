//! Active policies: a missing page may not have the color of another page in a TLB.

use super::{MigrationModel, Target, TargetChoice, Translation, Wishes};
use pagewalk_units::Draws;

/// The policy.
#[derive(Clone, Debug)]
pub struct Active {
    /// Misses of a color that move a page.
    misses: u64,
    /// Cycles in which at most one page moves.
    interval: u64,
    target: Target,
    /// By color: misses since the last move.
    counts: Vec<u64>,
    /// When the last page moved.
    moved: Option<u64>,
}

impl Active {
    /// The policy for so many colors.
    pub fn new(misses: u64, interval: u64, colors: u64) -> Active {
        let target = Target::new(TargetChoice::Sequential, Draws::new(0));
        Active { misses, interval, target, counts: vec![0; colors as usize], moved: None }
    }
}

impl MigrationModel for Active {
    /// The missing page moves, and the other one's translation is dropped: that of the lowest of several.
    fn missed(&mut self, missing: Translation, tlbs: &[Translation], cycles: u64) -> Wishes {
        let Translation { first, page, color } = missing;
        let rivals = tlbs.iter().filter(|of| of.first != first && of.color == color);
        let rival = rivals.map(|of| of.first).min();
        let rests = self.moved.is_some_and(|moved| cycles.saturating_sub(moved) < self.interval);
        let Some(rival) = rival.filter(|_| !rests) else { return Wishes::default() };
        let count = &mut self.counts[color as usize];
        *count += 1;
        if *count < self.misses {
            return Wishes { drops: Some(rival), ..Wishes::default() };
        }
        *count = 0;
        let free = vec![0; self.counts.len()];
        let mut taken: Vec<u64> = tlbs.iter().map(|of| of.color).collect();
        taken.push(color);
        let target = self.target.next(&taken, &free).or_else(|| self.target.next(&[color], &free));
        if target.is_some() {
            self.moved = Some(cycles);
        }
        Wishes { moves: target.map(|color| (page, color)).into_iter().collect(), ..Wishes::default() }
    }
}
