//! Layouts that nobody planned: every object shifted at random.

use pagewalk_units::Draws;

/// A shift below `period` for each of so many objects; the same for the same seed.
pub fn shifts(objects: usize, period: u64, seed: u64) -> Vec<u64> {
    let mut draws = Draws::new(seed);
    (0..objects).map(|_| draws.below(period)).collect()
}
