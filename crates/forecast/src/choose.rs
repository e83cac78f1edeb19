//! Which regions to put on huge pages: those that save most for their memory, as long as the budget lasts.
//!
//! After OFFLINE of Romer (1998, section 3.8), on today's hardware: there a superpage must pay for its copying, here
//! for the memory behind it.

use crate::REGION_BYTES;
use crate::pieces::PieceId;
use crate::prices::{Prices, Saving};
use crate::regions::{Found, Region};
use std::ops::Range;

/// Regions side by side in a piece.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    /// Whose.
    pub piece: PieceId,
    /// Bytes from the piece's beginning.
    pub bytes: Range<u64>,
    /// What they save.
    pub saving: Saving,
}

/// What choosing is bound to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Bytes that may be backed and not touched.
    pub memory: Option<u64>,
    /// Share of walks that wait for the one before: see [`Saving::walks`].
    pub waiting: f64,
    /// Nanoseconds that a run of regions must save to be worth a line of the plan.
    pub least: f64,
}

/// Chooses regions, and joins neighbours. In order of pieces and bytes.
///
/// A piece that ends amid a huge page cannot have its last one: regions that are not whole are left out.
pub fn choose(found: &Found, prices: &Prices, limits: &Limits) -> Vec<Chosen> {
    let worth = |saving: &Saving| saving.walks(limits.waiting) + saving.faults;
    let mut paying: Vec<(&Region, Saving)> = found
        .regions
        .iter()
        .filter(|region| is_whole(found, region))
        .map(|region| (region, prices.saving(region)))
        .filter(|(_, saving)| worth(saving) > 0.0)
        .collect();
    // A page's worth of memory more for all, so that what costs none comes by what it saves.
    let rate = |(_, saving): &(&Region, Saving)| worth(saving) / (saving.memory + 4096) as f64;
    paying.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
    let mut left = limits.memory.unwrap_or(u64::MAX);
    paying.retain(|(_, saving)| {
        let fits = saving.memory <= left;
        left -= if fits { saving.memory } else { 0 };
        fits
    });
    let mut chosen = joined(paying);
    chosen.retain(|chosen| worth(&chosen.saving) >= limits.least);
    chosen
}

/// What a kernel saves that gives huge pages to all memory: also to what does not pay.
pub fn all_memory(found: &Found, prices: &Prices) -> Saving {
    let whole = found.regions.iter().filter(|region| is_whole(found, region));
    whole.fold(Saving::default(), |sum, region| sum.and(&prices.saving(region)))
}

fn is_whole(found: &Found, region: &Region) -> bool {
    let piece = found.pieces[region.piece.0 as usize];
    (region.number + 1) * REGION_BYTES <= piece.bytes
}

/// Neighbours as one.
fn joined(mut regions: Vec<(&Region, Saving)>) -> Vec<Chosen> {
    regions.sort_by_key(|(region, _)| (region.piece, region.number));
    let mut chosen: Vec<Chosen> = Vec::new();
    for (region, saving) in regions {
        let start = region.number * REGION_BYTES;
        match chosen.last_mut() {
            Some(last) if (last.piece, last.bytes.end) == (region.piece, start) => {
                last.bytes.end = start + REGION_BYTES;
                last.saving = last.saving.and(&saving);
            }
            _ => chosen.push(Chosen { piece: region.piece, bytes: start..start + REGION_BYTES, saving }),
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pieces::{Piece, PieceKind};
    use crate::prices::WalkPrice;
    use crate::regions::CLASSES;

    fn region(number: u64, pages: u64, count: u64) -> Region {
        let mut walks = [0; CLASSES];
        walks[0] = count;
        Region { piece: PieceId(0), number, pages, walks, huge_walks: 0 }
    }

    fn found(regions: Vec<Region>) -> Found {
        let pieces = vec![Piece { kind: PieceKind::Heap, bytes: 10 * REGION_BYTES + 4096 }];
        Found { pieces, regions, ..Found::default() }
    }

    fn prices() -> Prices {
        let walks = vec![WalkPrice { lines: 1, alone: 10.0, together: 2.0 }];
        Prices { walks, huge_walk: 1.0, fault: 0.0, huge_fault: 1000.0 }
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
        let all = choose(&found, &prices(), &Limits { memory: None, waiting: 1.0, least: 0.0 });
        let ranges: Vec<Range<u64>> = all.iter().map(|chosen| chosen.bytes.clone()).collect();
        let of = |from, to| from * REGION_BYTES..to * REGION_BYTES;
        assert_eq!(ranges, [of(0, 2), of(4, 5)], "the third does not pay, the last is not whole");
        assert_eq!(all[0].saving.memory, 12 * 4096);
        assert!((all[0].saving.alone + all[0].saving.faults - 17_000.0).abs() < 1e-9);
        // What does not pay as well: 27,500 ns of walks and four huge faults of 1,000, and memory for the third.
        let always = all_memory(&found, &prices());
        assert!((always.alone + always.faults - 23_500.0).abs() < 1e-9, "{always:?}");
        assert_eq!(always.memory, (12 + 511) * 4096);
    }

    #[test]
    fn a_budget_goes_to_what_saves_most_for_its_memory() {
        let regions = vec![region(0, 256, 2000), region(1, 511, 1500), region(2, 384, 1900)];
        let limits = |memory| Limits { memory: Some(memory), waiting: 1.0, least: 0.0 };
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

    #[test]
    fn lines_of_the_plan_that_save_next_to_nothing_are_left_out() {
        let regions = vec![region(0, 512, 1000), region(4, 512, 101)];
        let limits = Limits { memory: None, waiting: 1.0, least: 100.0 };
        assert_eq!(choose(&found(regions), &prices(), &limits).len(), 1);
    }
}
