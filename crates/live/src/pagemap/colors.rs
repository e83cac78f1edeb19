//! How a process's frames spread over the colors of a cache.
//!
//! Frames whose numbers agree modulo the colors compete for the same sets of a physically indexed cache (Kessler and
//! Hill, "Page Placement Algorithms for Large Real-Indexed Caches", ACM TOCS 10 (4), 1992).

use super::distinct_pages::DistinctPages;

/// The frames of a process, each once.
#[derive(Clone, Debug, Default)]
pub struct Frames {
    /// All of them.
    pub(super) all: DistinctPages,
    /// Those of huge pages, if their places are known.
    pub(super) huge: DistinctPages,
}

/// Pages by color: one number for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PagesByColor {
    /// Base pages that no huge page maps.
    pub base: Vec<u64>,
    /// Base pages of huge pages, which take each color in turn.
    pub huge: Vec<u64>,
}

impl Frames {
    /// Frames by their number modulo `colors`, at least 1.
    pub fn by_color(&self, colors: u64) -> PagesByColor {
        let count = |frames: &DistinctPages| {
            let mut pages = vec![0; colors as usize];
            frames.iter().for_each(|frame| pages[(frame % colors) as usize] += 1);
            pages
        };
        let (all, huge) = (count(&self.all), count(&self.huge));
        // A frame that both map is a huge page's.
        PagesByColor { base: all.iter().zip(&huge).map(|(all, huge)| all - huge).collect(), huge }
    }
}

impl PagesByColor {
    /// All pages of each color.
    pub fn all(&self) -> Vec<u64> {
        self.base.iter().zip(&self.huge).map(|(base, huge)| base + huge).collect()
    }

    /// Pearson's statistic of the base pages against an even spread: the squared deviations from the mean, over the
    /// mean. 0 if they spread evenly; if each page's color is random, its mean is one less than there are colors. Huge
    /// pages are left out: the kernel cannot choose their colors. `None` without base pages.
    pub fn chi_square(&self) -> Option<f64> {
        let pages: u64 = self.base.iter().sum();
        let mean = pages as f64 / self.base.len() as f64;
        let squares = self.base.iter().map(|&pages| (pages as f64 - mean).powi(2));
        (pages > 0).then(|| squares.sum::<f64>() / mean)
    }

    /// Colors with more pages than a cache has ways, and the pages beyond the ways.
    pub fn beyond(&self, ways: u64) -> (u64, u64) {
        let beyond = self.all().into_iter().map(|pages| pages.saturating_sub(ways));
        beyond.filter(|&pages| pages > 0).fold((0, 0), |(colors, sum), pages| (colors + 1, sum + pages))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frames(base: &[(u64, u64)], huge: &[u64]) -> Frames {
        let mut frames = Frames::default();
        base.iter().for_each(|&(first, count)| frames.all.add(first, count));
        for &region in huge {
            frames.all.add(512 * region, 512);
            frames.huge.add(512 * region, 512);
        }
        frames
    }

    #[test]
    fn frames_of_one_color_conflict_and_huge_pages_have_all() {
        let strided: Vec<(u64, u64)> = (0..10).map(|page| (3 + 16 * page, 1)).collect();
        let pages = frames(&strided, &[7, 9]).by_color(16);
        assert_eq!((pages.base[3], pages.base.iter().sum::<u64>()), (10, 10));
        assert_eq!(pages.huge, [64; 16]);
        assert_eq!(pages.beyond(8), (16, 16 * 56 + 10));
        assert_eq!(pages.beyond(70), (1, 4));
        // Ten pages, all of one of 16 colors.
        let mean = 10.0 / 16.0;
        let expected = ((10.0 - mean) * (10.0 - mean) + 15.0 * mean * mean) / mean;
        assert!((pages.chi_square().unwrap() - expected).abs() < 1e-9);
        let even = frames(&[(100, 32)], &[]).by_color(16);
        assert_eq!((even.chi_square(), even.beyond(2)), (Some(0.0), (0, 0)));
        assert_eq!(frames(&[], &[1]).by_color(16).chi_square(), None);
    }

    proptest! {
        /// Checks page by page.
        #[test]
        fn colors_are_counted_as_one_by_one(
            base in prop::collection::vec((0u64..100_000, 1u64..200), 0..20),
            huge in prop::collection::vec(0u64..100, 0..4),
            colors in 1u64..200,
        ) {
            let of_huge: std::collections::BTreeSet<u64> =
                huge.iter().flat_map(|region| 512 * region..512 * (region + 1)).collect();
            let all: std::collections::BTreeSet<u64> =
                base.iter().flat_map(|&(first, count)| first..first + count).chain(of_huge.clone()).collect();
            let pages = frames(&base, &huge).by_color(colors);
            for color in 0..colors {
                let of = |frames: &std::collections::BTreeSet<u64>| {
                    frames.iter().filter(|&frame| frame % colors == color).count() as u64
                };
                prop_assert_eq!(pages.all()[color as usize], of(&all));
                prop_assert_eq!(pages.huge[color as usize], of(&of_huge));
            }
        }
    }
}
