//! Chooses which regions to put on huge pages: those that save most for their memory, within a budget.
//!
//! It follows Romer's OFFLINE (1998, section 3.8), on today's hardware: there a superpage must pay for its copying,
//! here for the memory behind it.

use crate::REGION_BYTES;
use crate::pieces::PieceId;
use crate::prices::{HostPrices, Saving};
use crate::regions::{Region, RegionReport};
use std::ops::Range;

const PAGE_BYTES: u64 = 4096;

/// Adjacent regions of a piece.
#[derive(Clone, Debug, PartialEq)]
pub struct RegionRun {
    /// The piece.
    pub piece: PieceId,
    /// Bytes from the piece's beginning.
    pub bytes: Range<u64>,
    /// Their saving.
    pub saving: Saving,
}

/// Limits on the choice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChoiceLimits {
    /// Bytes that may be backed but never touched.
    pub memory: Option<u64>,
    /// Share of walks that wait for the one before: see [`Saving::walks`].
    pub waiting: f64,
    /// Least saving of a run of regions, in nanoseconds, for a line in the plan.
    pub least: f64,
}

/// Chooses regions and joins neighbours, in order of pieces and bytes.
///
/// Partial regions are left out, such as at the end of a piece that ends inside a huge page; so are pieces too short to
/// surely contain a huge page.
pub fn choose(found: &RegionReport, prices: &HostPrices, limits: &ChoiceLimits) -> Vec<RegionRun> {
    let worth = |saving: &Saving| saving.walks(limits.waiting) + saving.faults;
    let named_bytes = |region: &Region| found.pieces[region.piece.0 as usize].named_bytes();
    let mut paying: Vec<(&Region, Saving)> = found
        .regions
        .iter()
        .filter(|region| can_be_huge(region, named_bytes(region)))
        .map(|region| (region, prices.saving(region)))
        .filter(|(_, saving)| worth(saving) > 0.0)
        .collect();
    // One page is added to every region's memory, so that regions that cost none are ordered by saving.
    let rate = |(_, saving): &(&Region, Saving)| worth(saving) / (saving.memory + PAGE_BYTES) as f64;
    paying.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
    let mut left = limits.memory.unwrap_or(u64::MAX);
    paying.retain(|(_, saving)| {
        let fits = saving.memory <= left;
        left -= if fits { saving.memory } else { 0 };
        fits
    });
    let mut chosen = joined(paying);
    chosen.retain(|chosen| worth(&chosen.saving) >= limits.least);
    let mut chosen = widened(found, chosen);
    within(&mut chosen, limits, worth);
    chosen
}

/// Whether a huge page surely fits a region of a piece with this many bytes. A length that is no multiple of a huge
/// page may start at any page, so it contains a whole one only if it is almost two long.
fn can_be_huge(region: &Region, bytes: u64) -> bool {
    let is_whole = (region.number + 1) * REGION_BYTES <= bytes;
    is_whole && (bytes.is_multiple_of(REGION_BYTES) || bytes >= 2 * REGION_BYTES - PAGE_BYTES)
}

/// Widens the choice in pieces that may start at any page, where huge pages do not start with regions: to cover all
/// chosen bytes, the marked range grows by almost a huge page on both sides. How much of that is never touched is
/// unknown: at most a huge page's memory each.
fn widened(found: &RegionReport, chosen: Vec<RegionRun>) -> Vec<RegionRun> {
    let mut wide: Vec<RegionRun> = Vec::with_capacity(chosen.len());
    for mut next in chosen {
        // A heap ends at any byte, but plans count pages.
        let bytes = found.pieces[next.piece.0 as usize].named_bytes().next_multiple_of(PAGE_BYTES);
        if !bytes.is_multiple_of(REGION_BYTES) {
            let more = REGION_BYTES - PAGE_BYTES;
            next.bytes = next.bytes.start.saturating_sub(more)..(next.bytes.end + more).min(bytes);
            next.saving.memory += REGION_BYTES;
        }
        match wide.last_mut() {
            Some(last) if last.piece == next.piece && last.bytes.end >= next.bytes.start => {
                last.bytes.end = next.bytes.end;
                last.saving = last.saving.and(&next.saving);
            }
            _ => wide.push(next),
        }
    }
    wide
}

/// Drops what saves least for its memory until the budget holds.
fn within(chosen: &mut Vec<RegionRun>, limits: &ChoiceLimits, worth: impl Fn(&Saving) -> f64) {
    let rate = |chosen: &RegionRun| worth(&chosen.saving) / (chosen.saving.memory + PAGE_BYTES) as f64;
    while limits.memory.is_some_and(|most| chosen.iter().map(|one| one.saving.memory).sum::<u64>() > most) {
        let paying = |&(_, one): &(usize, &RegionRun)| one.saving.memory > 0;
        let least =
            chosen.iter().enumerate().filter(paying).min_by(|(_, a), (_, b)| rate(a).total_cmp(&rate(b)));
        let Some((position, _)) = least else { return };
        chosen.remove(position);
    }
}

/// The saving if the kernel gives huge pages to all memory, also where they do not pay.
pub fn all_memory(found: &RegionReport, prices: &HostPrices) -> Saving {
    let bytes = |region: &Region| found.pieces[region.piece.0 as usize].bytes;
    let all = found.regions.iter().filter(|region| can_be_huge(region, bytes(region)));
    all.fold(Saving::default(), |sum, region| sum.and(&prices.saving(region)))
}

/// Joins neighbours.
fn joined(mut regions: Vec<(&Region, Saving)>) -> Vec<RegionRun> {
    regions.sort_by_key(|(region, _)| (region.piece, region.number));
    let mut chosen: Vec<RegionRun> = Vec::new();
    for (region, saving) in regions {
        let start = region.number * REGION_BYTES;
        match chosen.last_mut() {
            Some(last) if (last.piece, last.bytes.end) == (region.piece, start) => {
                last.bytes.end = start + REGION_BYTES;
                last.saving = last.saving.and(&saving);
            }
            _ => chosen.push(RegionRun { piece: region.piece, bytes: start..start + REGION_BYTES, saving }),
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pieces::{Piece, PieceKind};
    use crate::prices::{Spread, WalkPrice};
    use crate::regions::CLASSES;

    fn region(number: u64, pages: u64, count: u64) -> Region {
        let mut walks = [0; CLASSES];
        walks[0] = count;
        Region { piece: PieceId(0), number, pages, walks, huge_walks_now: 0, huge_walks: 0 }
    }

    fn found(regions: Vec<Region>) -> RegionReport {
        found_in(10 * REGION_BYTES, regions)
    }

    fn found_in(bytes: u64, regions: Vec<Region>) -> RegionReport {
        let pieces = vec![Piece { kind: PieceKind::Heap, bytes }];
        RegionReport { pieces, regions, ..RegionReport::default() }
    }

    fn prices() -> HostPrices {
        let walks = vec![WalkPrice { lines: 1, alone: 10.0, together: 2.0 }];
        let spread = Spread { walks: [1.0; 2], fault: [0.0; 2], huge_fault: [1000.0; 2] };
        HostPrices { walks, huge_walk: 1.0, fault: 0.0, huge_fault: 1000.0, spread }
    }

    #[test]
    fn what_pays_is_taken_and_joined() {
        let regions = vec![
            region(0, 512, 1000),
            region(1, 500, 900),
            region(2, 1, 50),
            region(4, 512, 800),
            region(10, 9, 9000),
        ];
        let found = found(regions);
        let all = choose(&found, &prices(), &ChoiceLimits { memory: None, waiting: 1.0, least: 0.0 });
        let ranges: Vec<Range<u64>> = all.iter().map(|chosen| chosen.bytes.clone()).collect();
        let of = |from, to| from * REGION_BYTES..to * REGION_BYTES;
        assert_eq!(ranges, [of(0, 2), of(4, 5)], "the third does not pay, the last lies beyond");
        assert_eq!(all[0].saving.memory, 12 * 4096);
        assert!((all[0].saving.alone + all[0].saving.faults - 17_000.0).abs() < 1e-9);
        // Also what does not pay: 27,500 ns of walks and four huge faults of 1,000, and memory for the third.
        let always = all_memory(&found, &prices());
        assert!((always.alone + always.faults - 23_500.0).abs() < 1e-9, "{always:?}");
        assert_eq!(always.memory, (12 + 511) * 4096);
    }

    #[test]
    fn what_may_lie_on_any_page_is_marked_further() {
        let all = ChoiceLimits { memory: None, waiting: 1.0, least: 0.0 };
        let of = |bytes, numbers: &[u64]| {
            let regions = numbers.iter().map(|&number| region(number, 512, 1000)).collect();
            choose(&found_in(bytes, regions), &prices(), &all)
        };
        let (bytes, more) = (9 * REGION_BYTES + 4096, REGION_BYTES - 4096);
        let one = &of(bytes, &[4])[0];
        assert_eq!(one.bytes, 4 * REGION_BYTES - more..5 * REGION_BYTES + more);
        assert_eq!(one.saving.memory, REGION_BYTES);
        // Widened neighbours merge, and nothing exceeds the ends.
        let both = of(bytes, &[0, 2, 8]);
        let ranges: Vec<Range<u64>> = both.iter().map(|chosen| chosen.bytes.clone()).collect();
        assert_eq!(ranges, [0..3 * REGION_BYTES + more, 8 * REGION_BYTES - more..bytes]);
        assert_eq!(of(2 * REGION_BYTES - 8192, &[0]), [], "there may be no whole block");
        assert_eq!(of(2 * REGION_BYTES - 4096, &[0]).len(), 1);
    }

    /// A plan names a mapping by its original length.
    #[test]
    fn what_a_mapping_grew_by_is_in_no_plan() {
        let all = ChoiceLimits { memory: None, waiting: 1.0, least: 0.0 };
        let of = |bytes| {
            let kind = PieceKind::Anonymous { bytes, nth: 1 };
            let regions = (0..8).map(|number| region(number, 512, 1000)).collect();
            let pieces = vec![Piece { kind, bytes: 8 * REGION_BYTES }];
            let found = RegionReport { pieces, regions, ..RegionReport::default() };
            let chosen = choose(&found, &prices(), &all).into_iter();
            let chosen: Vec<(u64, u64)> = chosen.map(|one| (one.bytes.start, one.bytes.end)).collect();
            (chosen, all_memory(&found, &prices()).alone)
        };
        let always = of(8 * REGION_BYTES).1;
        assert_eq!(
            of(3 * REGION_BYTES),
            (vec![(0, 3 * REGION_BYTES)], always),
            "mode `always` serves all of it"
        );
        let (some, all_of_it) = (3 * REGION_BYTES + 4096, 4096);
        assert_eq!(of(some), (vec![(0, some)], always));
        assert_eq!(of(all_of_it), (vec![], always));
    }

    #[test]
    fn a_budget_goes_to_what_saves_most_for_its_memory() {
        let regions = vec![region(0, 256, 2000), region(1, 511, 1500), region(2, 384, 1900)];
        let limits = |memory| ChoiceLimits { memory: Some(memory), waiting: 1.0, least: 0.0 };
        let numbers = |memory| -> Vec<u64> {
            let chosen = choose(&found(regions.clone()), &prices(), &limits(memory));
            chosen
                .iter()
                .flat_map(|one| one.bytes.start / REGION_BYTES..one.bytes.end / REGION_BYTES)
                .collect()
        };
        assert_eq!(numbers(4096), [1]);
        assert_eq!(numbers(129 * 4096), [1, 2]);
        assert_eq!(numbers(1 << 20), [1, 2]);
        assert_eq!(numbers(2 << 20), [0, 1, 2]);
        assert!(numbers(0).is_empty());
    }

    /// Marked memory around the choice counts as well.
    #[test]
    fn a_budget_is_kept_where_ranges_reach_further() {
        let regions = vec![region(1, 512, 900), region(8, 512, 1000)];
        let found = found_in(10 * REGION_BYTES + 4096, regions);
        let starts = |memory| -> Vec<u64> {
            let limits = ChoiceLimits { memory: Some(memory), waiting: 1.0, least: 0.0 };
            choose(&found, &prices(), &limits).iter().map(|one| one.bytes.start).collect()
        };
        assert_eq!(starts(2 * REGION_BYTES), [4096, 7 * REGION_BYTES + 4096]);
        assert_eq!(starts(REGION_BYTES), [7 * REGION_BYTES + 4096], "the one that saves more");
        assert!(starts(REGION_BYTES - 1).is_empty());
    }

    #[test]
    fn lines_of_the_plan_that_save_next_to_nothing_are_left_out() {
        let regions = vec![region(0, 512, 1000), region(4, 512, 101)];
        let limits = ChoiceLimits { memory: None, waiting: 1.0, least: 100.0 };
        assert_eq!(choose(&found(regions), &prices(), &limits).len(), 1);
    }
}
