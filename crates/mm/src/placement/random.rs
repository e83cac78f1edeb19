//! Random colors: what a kernel without colors gives.

use super::{Colors, Placement};
use pagewalk_units::Draws;

/// Every color with the same probability, for each process by itself.
#[derive(Clone)]
pub struct RandomColors {
    draws: Draws,
}

impl RandomColors {
    /// Colors drawn with this seed.
    pub fn new(seed: u64) -> RandomColors {
        RandomColors { draws: Draws::new(seed) }
    }
}

impl Placement for RandomColors {
    fn name(&self) -> &'static str {
        "random colors"
    }

    fn color(&mut self, _page: u64, process: u32, colors: Colors) -> u64 {
        Draws::new(self.draws.draw() ^ u64::from(process)).below(colors.count)
    }
}
