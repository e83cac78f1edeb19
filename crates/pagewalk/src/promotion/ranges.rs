//! Joins adjacent regions.

use pagewalk_live::pages::HUGE_BYTES;
use pagewalk_live::promote::policy::{Fate, PromotionPolicy, RegionState};

/// Adjacent regions.
#[derive(Clone, Debug, Default)]
pub struct RegionRange {
    pub start: u64,
    pub parts: u64,
    /// Promoted regions, or those that a dry run would promote.
    pub promoted: u64,
    /// Regions on huge pages from the start.
    pub huge_before: u64,
    /// Regions no longer tried.
    pub left: u64,
    /// Misses per second of processor time, at the last sample.
    pub misses_per_second: f64,
    /// Charges of regions that were not promoted.
    pub charges: f64,
    /// Whether sampling saturated in some region.
    pub saturated: bool,
}

/// All ranges, most misses first.
pub fn join(policy: &PromotionPolicy) -> Vec<RegionRange> {
    let mut ranges: Vec<RegionRange> = Vec::new();
    for part in policy.parts() {
        let start = part.view.start;
        match ranges.last_mut().filter(|range| range.start + range.parts * HUGE_BYTES == start) {
            Some(range) => add(range, part),
            None => {
                let mut range = RegionRange { start, ..RegionRange::default() };
                add(&mut range, part);
                ranges.push(range);
            }
        }
    }
    ranges.sort_by(|a, b| {
        b.misses_per_second.total_cmp(&a.misses_per_second).then(b.charges.total_cmp(&a.charges))
    });
    ranges
}

fn add(range: &mut RegionRange, part: &RegionState) {
    range.parts += 1;
    match part.fate {
        Fate::Promoted | Fate::WouldPromote => range.promoted += 1,
        Fate::HugeBefore => range.huge_before += 1,
        Fate::Left(_) => range.left += 1,
        Fate::Watched => {}
    }
    range.misses_per_second += part.misses_per_second.unwrap_or(0.0);
    range.charges += part.charges;
    range.saturated |= part.saturated;
}
