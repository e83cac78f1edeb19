//! The counts of families and curves, as stored.

use pagewalk_report::sweep::schema::Method;
use pagewalk_reuse::{Family, SampledDistances, Sampling, StackDistances};
use serde::{Deserialize, Serialize};

/// Arrays of the family.
pub const FAMILY_ARRAYS: usize =
    Family::PAGE_SIZES.len() * (Family::SETS_MAX.ilog2() as usize + 1) * Family::WAYS_MAX as usize;

/// The misses of the whole family.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FamilyCounts {
    /// References.
    pub references: u64,
    /// Misses by page size, set count and ways, each in the order of [`Family`]; 64 ways for every set count.
    pub misses: Vec<u64>,
}

impl FamilyCounts {
    pub fn of(family: &Family) -> FamilyCounts {
        let shapes = Family::PAGE_SIZES.into_iter().flat_map(|size| {
            (0..=Family::SETS_MAX.ilog2())
                .flat_map(move |bits| (1..=Family::WAYS_MAX).map(move |ways| (size, 1 << bits, ways)))
        });
        let misses = shapes.map(|(size, sets, ways)| family.misses(size, sets, ways).expect("of the family"));
        FamilyCounts { references: family.references(), misses: misses.collect() }
    }

    /// The misses of one array: page size by index in [`Family::PAGE_SIZES`].
    pub fn misses_of(&self, size: usize, sets: u32, ways: u32) -> u64 {
        let row = size * (Family::SETS_MAX.ilog2() as usize + 1) + sets.ilog2() as usize;
        self.misses[row * Family::WAYS_MAX as usize + ways as usize - 1]
    }

    /// Whether there is one for each array of the family.
    pub fn is_whole(&self) -> bool {
        self.misses.len() == FAMILY_ARRAYS
    }
}

/// Points of a curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CurveCounts {
    /// References.
    pub references: u64,
    /// How it was taken.
    pub method: Method,
    /// Entries.
    pub entries: Vec<u64>,
    /// Misses.
    pub misses: Vec<f64>,
    /// Their standard errors; empty if exact.
    pub standard_errors: Vec<f64>,
}

/// Points of a curve per power of two.
const POINTS: u64 = 8;

/// The sizes of a curve's points: eight per power of two.
fn points() -> impl Iterator<Item = u64> {
    let first = 1..POINTS;
    first.chain((0..u64::BITS - 4).flat_map(|bits| (POINTS..2 * POINTS).map(move |eighths| eighths << bits)))
}

impl CurveCounts {
    /// Whether every point has its misses, and `with_errors` of them a standard error.
    pub fn is_whole(&self, with_errors: usize) -> bool {
        self.misses.len() == self.entries.len() && self.standard_errors.len() == with_errors
    }

    pub fn exact(distances: &StackDistances) -> CurveCounts {
        let histogram = distances.histogram();
        let mut misses = distances.references();
        let mut summed = 0;
        let (mut entries, mut curve) = (Vec::new(), Vec::new());
        for point in points() {
            let end = histogram.len().min(usize::try_from(point).unwrap_or(usize::MAX));
            misses -= histogram[summed..end].iter().sum::<u64>();
            summed = end;
            entries.push(point);
            curve.push(misses as f64);
            if end == histogram.len() {
                break;
            }
        }
        let references = distances.references();
        CurveCounts { references, method: Method::Exact, entries, misses: curve, standard_errors: Vec::new() }
    }

    /// From the fewest entries that the sample resolves to where more no longer help.
    pub fn sampled(sampled: &SampledDistances, sampling: Sampling) -> CurveCounts {
        let rate = sampled.rate();
        let method = match sampling {
            Sampling::Rate(rate) => Method::FixedRate { rate },
            Sampling::Pages(pages) => Method::FixedSize { pages: pages as u64, rate },
        };
        let least = sampled.misses_with(u64::MAX).value;
        let mut counts = CurveCounts {
            references: sampled.references(),
            method,
            entries: Vec::new(),
            misses: Vec::new(),
            standard_errors: Vec::new(),
        };
        // An empty sample resolves no array.
        let first = if least > 0.0 { sampled.resolution() } else { u64::MAX };
        for point in points().skip_while(|&point| point < first) {
            let estimate = sampled.misses_with(point);
            counts.entries.push(point);
            counts.misses.push(estimate.value);
            counts.standard_errors.push(estimate.standard_error);
            if estimate.value == least {
                break;
            }
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewalk_reuse::ReferenceKinds;
    use pagewalk_units::Vpn;

    #[test]
    fn curves_have_eight_points_an_octave() {
        let first: Vec<u64> = points().take(20).collect();
        assert_eq!(first, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 20, 22, 24]);
        assert!(points().is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn a_sample_without_pages_tells_nothing() {
        let sampling = Sampling::Rate(1e-12);
        let mut sampled = SampledDistances::new(ReferenceKinds::Data, sampling);
        (0..100).for_each(|vpn| sampled.reference(Vpn(vpn)));
        let curve = CurveCounts::sampled(&sampled, sampling);
        assert_eq!((curve.references, curve.method), (100, Method::FixedRate { rate: 1e-12 }));
        assert!(curve.entries.is_empty() && curve.misses.is_empty() && curve.standard_errors.is_empty());
    }

    #[test]
    fn a_curve_ends_where_more_entries_no_longer_help() {
        let mut distances = StackDistances::new(ReferenceKinds::Data);
        (0..3).for_each(|_| (0..100).for_each(|vpn| distances.reference(Vpn(vpn))));
        let curve = CurveCounts::exact(&distances);
        assert_eq!(curve.entries.last(), Some(&104));
        let at = |entries| curve.misses[curve.entries.iter().position(|&e| e == entries).unwrap()];
        assert_eq!((at(1), at(96), at(104)), (300.0, 300.0, 100.0));
        for (&entries, &misses) in curve.entries.iter().zip(&curve.misses) {
            assert_eq!(misses, distances.misses_with(entries as usize) as f64);
        }
        assert_eq!(CurveCounts::exact(&StackDistances::new(ReferenceKinds::Data)).entries, [1]);
    }
}
