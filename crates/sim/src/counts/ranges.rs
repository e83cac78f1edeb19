//! The ranges of memories, counted.

/// The ranges of a memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RangeTotals {
    /// How many there are.
    pub ranges: u64,
    /// Nodes of the range table that they take.
    pub nodes: u64,
    /// Pages that have frames.
    pub pages: u64,
    /// Those of them that lie in ranges.
    pub covered: u64,
    /// Pages of the range in the middle, by length (the longer of two); 0 where there is none.
    pub median: u64,
    /// Pages of the longest; 0 where there is none.
    pub largest: u64,
    /// How many of the longest ranges have [`RangeTotals::SHARES`] of those pages; 0 where all of them have not.
    pub for_share: [u64; 3],
}

impl RangeTotals {
    /// Shares of all pages, in per cent.
    pub const SHARES: [u64; 3] = [90, 95, 99];

    /// Of lengths of ranges.
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
