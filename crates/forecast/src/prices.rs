//! Prices of walks and faults on a host, and the saving of huge pages in a region.

use crate::REGION_BYTES;
use crate::regions::{CLASSES, Region, lines};

/// Bytes of a base page.
const PAGE_BYTES: u64 = 4096;

/// How far walks overlap with other work, which an address stream does not show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// Each walk waits for the one before, as when following pointers.
    Alone,
    /// As many walks are in flight as the host allows.
    Together,
}

/// A host's prices, in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct HostPrices {
    /// Walks for a base page, by how many lines of page tables were read since its own, ascending; each alone, and with
    /// as many in flight as the host allows.
    pub walks: Vec<WalkPrice>,
    /// A walk for a huge page, alone.
    pub huge_walk: f64,
    /// The first touch of a base page.
    pub fault: f64,
    /// The first touch of a huge page, which the kernel clears entirely.
    pub huge_fault: f64,
    /// Bounds of the prices that were not measured.
    pub spread: Spread,
}

/// Bounds of prices, lower first; both equal a measured price.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Of walks, as multiples of the prices.
    pub walks: [f64; 2],
    /// Of [`HostPrices::fault`], in nanoseconds.
    pub fault: [f64; 2],
    /// Of [`HostPrices::huge_fault`], in nanoseconds.
    pub huge_fault: [f64; 2],
}

/// The price of a walk by the reuse distance of its page-table line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WalkPrice {
    /// Other lines read since.
    pub lines: u64,
    /// Nanoseconds if it is the only one.
    pub alone: f64,
    /// Nanoseconds per walk with many in flight.
    pub together: f64,
}

/// The saving of huge pages in a region.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Saving {
    /// Nanoseconds of walks, if they do not overlap.
    pub alone: f64,
    /// Nanoseconds of walks, if they do.
    pub together: f64,
    /// Nanoseconds of first touches; negative if clearing a whole huge page takes longer.
    pub faults: f64,
    /// Bytes that would be backed but not touched.
    pub memory: u64,
    /// Total nanoseconds at the prices that save least, with all walks overlapping,
    pub least: f64,
    /// and at those that save most, with none overlapping.
    pub most: f64,
}

impl Saving {
    /// Nanoseconds of walks if `share` of them wait for the one before.
    pub fn walks(&self, share: f64) -> f64 {
        share * self.alone + (1.0 - share) * self.together
    }

    /// Seconds of walks and first touches, if `share` of the walks wait for the one before.
    pub fn seconds(&self, share: f64) -> f64 {
        (self.walks(share) + self.faults) / 1e9
    }

    /// The sum of both.
    pub fn and(&self, other: &Saving) -> Saving {
        Saving {
            alone: self.alone + other.alone,
            together: self.together + other.together,
            faults: self.faults + other.faults,
            memory: self.memory + other.memory,
            least: self.least + other.least,
            most: self.most + other.most,
        }
    }
}

impl HostPrices {
    /// The price of a walk whose line was read this many lines ago: interpolated by the logarithm of lines, since
    /// caches grow by factors. Constant beyond the last price.
    pub fn walk(&self, lines: u64, overlap: Overlap) -> f64 {
        let price = |price: &WalkPrice| match overlap {
            Overlap::Alone => price.alone,
            Overlap::Together => price.together,
        };
        let after = self.walks.partition_point(|price| price.lines < lines);
        match (after.checked_sub(1).map(|before| &self.walks[before]), self.walks.get(after)) {
            (Some(before), Some(next)) => {
                let log = |lines: u64| (lines.max(1) as f64).log2();
                let way = (log(lines) - log(before.lines)) / (log(next.lines) - log(before.lines)).max(1e-9);
                price(before) + way.clamp(0.0, 1.0) * (price(next) - price(before))
            }
            (Some(only), None) | (None, Some(only)) => price(only),
            (None, None) => 0.0,
        }
    }

    /// The saving of huge pages in a region. A line never read before comes from memory, at the price of the greatest
    /// distance.
    pub fn saving(&self, region: &Region) -> Saving {
        let walks = |overlap| {
            let of = |class: usize| {
                region.walks[class] as f64 * self.walk(lines(class).unwrap_or(u64::MAX), overlap)
            };
            (0..CLASSES).map(of).sum::<f64>()
        };
        // Where the kernel gives huge pages already, first touches and memory stay as they are. Fewer walks for them
        // are the gain of other regions.
        let is_backed = region.huge_walks_now > 0;
        let left = region.huge_walks.saturating_sub(region.huge_walks_now) as f64 * self.huge_walk;
        let untouched = (REGION_BYTES / PAGE_BYTES).saturating_sub(region.pages) * PAGE_BYTES;
        let (alone, together) = (walks(Overlap::Alone), walks(Overlap::Together));
        let faults = |fault: f64, huge_fault: f64| match is_backed {
            true => 0.0,
            false => region.pages as f64 * fault - huge_fault,
        };
        let Spread { walks: [fewer, more], fault, huge_fault } = self.spread;
        Saving {
            alone: alone - left,
            together: together - left,
            faults: faults(self.fault, self.huge_fault),
            memory: if is_backed { 0 } else { untouched },
            least: together * fewer - left + faults(fault[0], huge_fault[1]),
            most: alone * more - left + faults(fault[1], huge_fault[0]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pieces::PieceId;

    fn prices() -> HostPrices {
        let walk = |lines, alone, together| WalkPrice { lines, alone, together };
        let walks = vec![walk(64, 10.0, 5.0), walk(1024, 50.0, 9.0), walk(32768, 150.0, 30.0)];
        let spread = Spread { walks: [1.0; 2], fault: [500.0; 2], huge_fault: [100_000.0; 2] };
        HostPrices { walks, huge_walk: 8.0, fault: 500.0, huge_fault: 100_000.0, spread }
    }

    #[test]
    fn walks_cost_more_the_longer_ago_their_line_was_read() {
        let prices = prices();
        for (lines, alone) in
            [(0, 10.0), (64, 10.0), (256, 30.0), (1024, 50.0), (32768, 150.0), (u64::MAX, 150.0)]
        {
            assert!((prices.walk(lines, Overlap::Alone) - alone).abs() < 1e-9, "{lines}");
        }
        assert!((prices.walk(256, Overlap::Together) - 7.0).abs() < 1e-9);
    }

    #[test]
    fn a_region_saves_its_walks_and_faults_less_those_of_the_huge_page() {
        let mut walks = [0; CLASSES];
        walks[5] = 100;
        walks[CLASSES - 1] = 2;
        let region =
            Region { piece: PieceId(0), number: 3, pages: 500, walks, huge_walks_now: 0, huge_walks: 10 };
        let saving = prices().saving(&region);
        assert!((saving.alone - (100.0 * prices().walk(63, Overlap::Alone) + 300.0 - 80.0)).abs() < 1e-9);
        assert!((saving.faults - (250_000.0 - 100_000.0)).abs() < 1e-9);
        assert_eq!(saving.memory, 12 * 4096);
        assert_eq!(saving.walks(1.0), saving.alone);
        assert!((saving.least - saving.together - saving.faults).abs() < 1e-9, "all is known");
        assert!((saving.most - saving.alone - saving.faults).abs() < 1e-9);
        let wide = Spread { walks: [0.5, 2.0], fault: [400.0, 700.0], huge_fault: [90_000.0, 150_000.0] };
        let unsure = HostPrices { spread: wide, ..prices() }.saving(&region);
        assert!(
            (unsure.least - ((saving.together + 80.0) * 0.5 - 80.0 + 200_000.0 - 150_000.0)).abs() < 1e-6
        );
        assert!((unsure.most - ((saving.alone + 80.0) * 2.0 - 80.0 + 350_000.0 - 90_000.0)).abs() < 1e-6);
        let sparse = Region { pages: 1, ..region };
        assert!(prices().saving(&sparse).faults < 0.0);
    }

    #[test]
    fn what_is_huge_already_saves_nothing() {
        let walks = [0; CLASSES];
        let huge =
            Region { piece: PieceId(0), number: 3, pages: 2, walks, huge_walks_now: 10, huge_walks: 10 };
        for huge_walks in [0, 10] {
            let huge = Region { huge_walks, ..huge.clone() };
            assert_eq!(prices().saving(&huge), Saving::default());
        }
        let mut walks = [0; CLASSES];
        walks[5] = 100;
        // It was split.
        let split = prices().saving(&Region { walks, ..huge });
        assert!((split.alone - 100.0 * prices().walk(63, Overlap::Alone)).abs() < 1e-9);
        assert_eq!((split.faults, split.memory), (0.0, 0));
    }
}
