//! The family as a heat map: sets upwards, ways to the right, both logarithmic, so that arrays of equal size lie on a
//! straight line.

use super::picture::{LEVELS, Picture};
use super::schema::{FamilyCell, FamilySize, SweepTrace};
use crate::numbers::{exact, ratio};

/// Width of a doubling of the ways, height of a doubling of the sets.
const COLUMN: f64 = 58.0;
const ROW: f64 = 17.0;
const LEFT: f64 = 52.0;
const TOP: f64 = 30.0;
/// Room for the names of lines.
const RIGHT: f64 = 44.0;
/// Sizes in entries that get a line.
const SIZES: [u64; 3] = [64, 512, 4096];

/// The colour scale of one family: misses per 1000 instructions from the fewest to the most, logarithmic.
pub(super) struct Scale {
    instructions: u64,
    least: f64,
    most: f64,
}

impl Scale {
    /// One scale for all page sizes of a family, so that their colours compare.
    pub fn new(trace: &SweepTrace, family: &FamilyCell) -> Scale {
        let instructions = trace.instructions.max(1);
        let all = family.sizes.iter().flat_map(|size| size.misses.iter().flatten());
        let rates =
            all.filter(|&&misses| misses > 0).map(|&misses| misses as f64 * 1000.0 / instructions as f64);
        let (least, most) = rates
            .fold((f64::INFINITY, 0.0), |(least, most): (f64, f64), rate| (least.min(rate), most.max(rate)));
        Scale { instructions, least: least.min(most), most }
    }

    fn rate(&self, misses: u64) -> f64 {
        misses as f64 * 1000.0 / self.instructions as f64
    }

    /// The colour's level; 0 for no misses.
    fn level(&self, misses: u64) -> usize {
        if misses == 0 || self.most <= self.least {
            return usize::from(misses > 0) * (LEVELS - 1);
        }
        let part = (self.rate(misses) / self.least).ln() / (self.most / self.least).ln();
        1 + (part * (LEVELS - 2) as f64).round() as usize
    }

    /// The legend of colours.
    pub fn legend(&self) -> Picture {
        let mut picture = Picture::new(480.0, 22.0);
        let width = 7.0;
        picture.text("", [0.0, 15.0], "start", &ratio(self.least));
        for level in 1..LEVELS {
            let x = 44.0 + width * level as f64;
            picture.cell(&format!("l{level}"), [x, 5.0, width + 0.2, 11.0], "");
        }
        let x = 44.0 + width * LEVELS as f64 + 6.0;
        picture.text("", [x, 15.0], "start", &format!("{} misses per 1000 instructions", ratio(self.most)));
        picture
    }
}

/// The heat map of one page size.
pub(super) fn heat_map(size: &FamilySize, scale: &Scale) -> Picture {
    let most_ways = f64::from(size.ways.last().copied().unwrap_or(1));
    let first_way = f64::from(size.ways.first().copied().unwrap_or(1)).log2();
    let width = ((most_ways + 1.0).log2() - first_way) * COLUMN;
    let height = size.sets.len() as f64 * ROW;
    let mut picture = Picture::new(LEFT + width + RIGHT, TOP + height + 40.0);
    let x = |ways: f64| LEFT + (ways.log2() - first_way) * COLUMN;
    // The first number of sets is at the bottom.
    let y = |row: usize| TOP + height - (row + 1) as f64 * ROW;
    picture.text("strong", [LEFT, 14.0], "start", &format!("{} pages", size.page_size));
    picture.text("", [0.0, TOP - 4.0], "start", "sets");
    for (row, (sets, misses)) in size.sets.iter().zip(&size.misses).enumerate() {
        picture.text("", [LEFT - 7.0, y(row) + ROW - 4.5], "end", &sets.to_string());
        for (&ways, &misses) in size.ways.iter().zip(misses) {
            let title = format!(
                "{sets} × {ways} = {} entries: {} misses, {} per 1000 instructions",
                exact(u64::from(*sets) * u64::from(ways)),
                exact(misses),
                ratio(scale.rate(misses))
            );
            let (left, right) = (x(f64::from(ways)), x(f64::from(ways) + 1.0));
            let class = format!("l{}", scale.level(misses));
            picture.cell(&class, [left, y(row), right - left + 0.3, ROW + 0.3], &title);
        }
    }
    for &ways in size.ways.iter().filter(|ways| ways.is_power_of_two()) {
        let middle = (x(f64::from(ways)) + x(f64::from(ways) + 1.0)) / 2.0;
        picture.text("", [middle, TOP + height + 15.0], "middle", &ways.to_string());
    }
    picture.text("", [LEFT + width, TOP + height + 32.0], "end", "ways");
    for entries in SIZES {
        one_size(&mut picture, size, entries, |row, ways| {
            [(x(ways) + x(ways + 1.0)) / 2.0, y(row) + ROW / 2.0]
        });
    }
    picture
}

/// A line through the arrays with the same number of entries, named at its right end.
fn one_size(picture: &mut Picture, size: &FamilySize, entries: u64, middle: impl Fn(usize, f64) -> [f64; 2]) {
    let ways_of = |sets: u32| entries.checked_div(u64::from(sets)).and_then(|ways| u32::try_from(ways).ok());
    let of_size = size.sets.iter().enumerate().filter_map(|(row, &sets)| {
        let ways = ways_of(sets).filter(|ways| size.ways.contains(ways))?;
        Some(middle(row, f64::from(ways)))
    });
    let points: Vec<[f64; 2]> = of_size.collect();
    let (Some(end), true) = (points.first(), points.len() > 1) else { return };
    picture.polyline("size", &points);
    picture.text("size", [end[0] + 6.0, end[1] + 4.0], "start", &exact(entries));
}
