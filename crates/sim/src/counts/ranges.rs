//! Counts of the ranges of a memory.

/// The ranges of a memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RangeTotals {
    /// Their number.
    pub ranges: u64,
    /// Nodes of the range table.
    pub nodes: u64,
    /// Pages that have frames.
    pub pages: u64,
    /// Pages in ranges.
    pub covered: u64,
    /// Pages of the range of median length, the longer of two; 0 without ranges.
    pub median: u64,
    /// Pages of the longest range; 0 without ranges.
    pub largest: u64,
    /// How many of the longest ranges cover [`RangeTotals::SHARES`] of all pages; 0 if all ranges together do not.
    pub for_share: [u64; 3],
}

impl RangeTotals {
    /// Shares of all pages, in per cent.
    pub const SHARES: [u64; 3] = [90, 95, 99];

    /// Totals of the ranges of several address spaces.
    pub(crate) fn of(all: &[RangeLengths]) -> RangeTotals {
        let mut lengths: Vec<u64> = all.iter().flat_map(|one| one.lengths.iter().copied()).collect();
        lengths.sort_unstable_by_key(|&length| std::cmp::Reverse(length));
        let pages = all.iter().map(|one| one.pages).sum();
        let needed = |share: u64| {
            let mut covered = 0;
            let at = lengths.iter().position(|length| {
                covered += length;
                covered * 100 >= pages * share
            });
            at.map_or(0, |at| at as u64 + 1)
        };
        RangeTotals {
            ranges: lengths.len() as u64,
            nodes: all.iter().map(|one| one.nodes).sum(),
            pages,
            covered: lengths.iter().sum(),
            median: lengths.get(lengths.len().saturating_sub(1) / 2).copied().unwrap_or(0),
            largest: lengths.first().copied().unwrap_or(0),
            for_share: RangeTotals::SHARES.map(needed),
        }
    }
}

/// The ranges of one address space.
pub(crate) struct RangeLengths {
    /// Their pages.
    pub lengths: Vec<u64>,
    /// Pages that have frames.
    pub pages: u64,
    /// Nodes of the table.
    pub nodes: u64,
}
