//! Random layouts: every object shifted at random.

use pagewalk_units::Draws;

/// A random shift below `period` for each object, determined by the seed.
pub fn shifts(objects: usize, period: u64, seed: u64) -> Vec<u64> {
    let mut draws = Draws::new(seed);
    (0..objects).map(|_| draws.below(period)).collect()
}
