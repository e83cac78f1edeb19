//! Data TLB levels as results, and assumed values for machine files where something was refused.

use super::arrays::{ConflictBounds, MeasuredLevel, TlbSearch};
use super::figure::{Curve, Figure, Samples};
use super::{NearestPolicy, ProbeError, ProbedSize, ReplacementFinding, arrays};

/// A data TLB level for one page size.
#[derive(Clone, Debug, PartialEq)]
pub struct Tlb {
    /// The page size.
    pub page: ProbedSize,
    /// 1 or 2.
    pub level: u32,
    /// Its entries; none if refused.
    pub entries: Option<u64>,
    /// Its ways, equal to the entries if fully associative; none if refused.
    pub ways: Option<u64>,
    /// Most pages that hit, and fewest pages of which most miss.
    pub between: [u64; 2],
    /// Why `entries` and `ways` are refused.
    pub refused: Option<String>,
    /// For each stride with conflicts: the most pages that all hit.
    pub conflicts: Vec<StrideConflict>,
    /// Its replacement policy.
    pub replacement: ReplacementFinding,
    /// Values for a machine file: as found, or assumed where `entries` and `ways` are refused.
    pub assumed: AssumedArray,
}

/// The most pages at a stride that all hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StrideConflict {
    /// Distance between pages, in pages.
    pub stride: u64,
    /// Most pages in a cycle that all hit.
    pub hits: u64,
}

/// An assumed array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AssumedArray {
    /// Its entries.
    pub entries: u64,
    /// Its ways.
    pub ways: u64,
}

/// Ways if nothing is known.
const USUAL_WAYS: u64 = 8;

/// The levels found for a page size, with their replacement.
pub(super) fn tlbs(page: ProbedSize, found: &TlbSearch, replaced: Vec<ReplacementFinding>) -> Vec<Tlb> {
    let tlb = |(index, (level, replacement)): (usize, (&MeasuredLevel, ReplacementFinding))| Tlb {
        page,
        level: index as u32 + 1,
        entries: level.entries,
        ways: level.ways,
        between: [level.step.onset, level.step.half],
        refused: level.refused.clone(),
        conflicts: level
            .conflicts
            .iter()
            .map(|&ConflictBounds { stride, hits, .. }| StrideConflict { stride, hits })
            .collect(),
        assumed: assumed(level, &replacement),
        replacement,
    };
    found.levels.iter().zip(replaced).enumerate().map(tlb).collect()
}

/// The array found. If refused: entries are the power of two nearest to the middle of the rise on a logarithmic scale;
/// ways are those with which its replacement fitted best, else the only power of two between the pages of one set that
/// hit and those that miss.
fn assumed(level: &MeasuredLevel, replacement: &ReplacementFinding) -> AssumedArray {
    if let (Some(entries), Some(ways)) = (level.entries, level.ways) {
        return AssumedArray { entries, ways };
    }
    let middle = (level.step.onset.max(1) as f64 * level.step.half.max(1) as f64).sqrt();
    let entries = 1u64 << middle.log2().round() as u32;
    if let ReplacementFinding::Nearest(NearestPolicy { ways, .. }) = *replacement
        && entries.is_multiple_of(ways)
        && (entries / ways).is_power_of_two()
    {
        return AssumedArray { entries, ways };
    }
    let (low, high) = arrays::range(&level.conflicts);
    let powers: Vec<u64> = (0..7).map(|bit| 1 << bit).filter(|ways| (low..=high).contains(ways)).collect();
    let ways = if let [ways] = powers[..] { ways } else { USUAL_WAYS };
    AssumedArray { entries, ways: ways.min(entries) }
}

/// The curve of a page size and its levels' costs: a first-level hit, and how much longer a second-level hit and a walk
/// take.
pub(super) fn costs(page: ProbedSize, found: &TlbSearch) -> (Curve, Vec<Figure>) {
    let (name, title) = (page.name(), page.title());
    let curve = Curve::of(
        [&format!("tlb.{name}"), &format!("an access, to so many {title} pages in turn")],
        ["pages", "ns"],
        found.curve.iter().map(|(pages, samples)| (*pages, samples)),
    );
    let at = |pages: u64| found.curve.iter().rfind(|(at, _)| *at <= pages).map(|(_, samples)| samples);
    let first = found.curve.first().map(|(_, samples)| samples);
    let [hit, second_hit, walk] = names(page);
    let of = |[name, title]: &[String; 2], samples: Option<Samples>| match samples {
        Some(samples) => Figure::of(name, title, "ns", &samples),
        None => Figure::refused(name, title, "ns", "the curve does not show two steps"),
    };
    let steps: Vec<_> = found.levels.iter().map(|level| level.step).collect();
    let second = steps.first().zip(steps.get(1));
    // Half way between the two steps, on a logarithmic scale.
    let between = second.and_then(|(one, two)| at((one.half as f64 * two.onset as f64).sqrt() as u64));
    // Twice the page count at which most miss.
    let behind = second.and_then(|(_, two)| at(two.half * 2));
    let extra = |samples: Option<&Samples>| Some(samples?.less(first?));
    let figures = vec![of(&hit, first.cloned()), of(&second_hit, extra(between)), of(&walk, extra(behind))];
    (curve, figures)
}

/// Names and titles of a page size's figures.
fn names(page: ProbedSize) -> [[String; 2]; 3] {
    let (name, title) = (page.name(), page.title());
    [
        ("hit", "load: first-level TLB and cache hit"),
        ("l2_hit_extra", "second-level TLB hit, extra"),
        ("walk_extra", "walk with tables in caches, extra"),
    ]
    .map(|(part, what)| [format!("tlb.{name}.{part}"), format!("{what}, {title} pages")])
}

/// The figures of a page size that was not measured.
pub(super) fn refused(page: ProbedSize, why: &ProbeError) -> Vec<Figure> {
    names(page).iter().map(|[name, title]| Figure::refused(name, title, "ns", why)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::steps::CurveStep;
    use pagewalk_setassoc::Replacement;

    #[test]
    fn what_is_refused_is_taken_from_the_middle() {
        let step = CurveStep { below: 5.0, above: 12.0, onset: 1722, half: 2435, noise: 0.1 };
        let conflict = |stride, hits, misses| ConflictBounds { stride, hits, misses, sharp: false };
        let mut level = MeasuredLevel {
            step,
            entries: None,
            ways: None,
            refused: Some("not sharp".to_owned()),
            conflicts: vec![conflict(16384, 14, 20), conflict(32768, 14, 20)],
        };
        let unknown = ReplacementFinding::Undecided("for a test".to_owned());
        assert_eq!(assumed(&level, &unknown), AssumedArray { entries: 2048, ways: 16 });
        let nearest = |ways| {
            ReplacementFinding::Nearest(NearestPolicy {
                policy: Replacement::Fifo,
                ways,
                off: 0.01,
                next: None,
            })
        };
        assert_eq!(assumed(&level, &nearest(8)), AssumedArray { entries: 2048, ways: 8 });
        assert_eq!(
            assumed(&level, &nearest(12)),
            AssumedArray { entries: 2048, ways: 16 },
            "no power of two of sets"
        );
        level.conflicts.clear();
        assert_eq!(assumed(&level, &unknown), AssumedArray { entries: 2048, ways: 8 });
        (level.entries, level.ways) = (Some(1536), Some(12));
        assert_eq!(assumed(&level, &unknown), AssumedArray { entries: 1536, ways: 12 });
    }
}
