//! Parts that lie beside each other, together.

use pagewalk_live::pages::HUGE_BYTES;
use pagewalk_live::promote::policy::{Fate, Policy, RegionState};

/// Parts without a gap between them.
#[derive(Clone, Debug, Default)]
pub struct Range {
    /// Its address.
    pub start: u64,
    /// Its parts.
    pub parts: u64,
    /// Those that were promoted, or would have been.
    pub promoted: u64,
    /// Those that were on huge pages before.
    pub huge_before: u64,
    /// Those that are no longer tried.
    pub left: u64,
    /// Misses in a second of processor time, when they were sampled last.
    pub misses_per_second: f64,
    /// Charges of those that were not promoted.
    pub charges: f64,
    /// Whether more misses could not have been seen in some.
    pub saturated: bool,
}

/// All ranges, those with most misses first.
pub fn of(policy: &Policy) -> Vec<Range> {
    let mut ranges: Vec<Range> = Vec::new();
    for part in policy.parts() {
        let start = part.view.start;
        match ranges.last_mut().filter(|range| range.start + range.parts * HUGE_BYTES == start) {
            Some(range) => add(range, part),
            None => {
                let mut range = Range { start, ..Range::default() };
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

fn add(range: &mut Range, part: &RegionState) {
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
