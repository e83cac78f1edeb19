//! Counts pairs of pages that met in a set, with causes.

use super::Side;
use pagewalk_units::VirtAddr;
use rustc_hash::FxHashMap;

/// How often one page replaced another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The new page: index into [`super::ArrayHistory::pages`].
    pub victimiser: usize,
    /// The side that brought it.
    pub victimiser_side: Side,
    /// The evicted page.
    pub victim: usize,
    /// The side that had brought it.
    pub victim_side: Side,
    /// Their set.
    pub set: usize,
    /// How often.
    pub count: u64,
    /// The instruction fetched, or the address loaded or stored, that caused most of it.
    pub cause: VirtAddr,
    /// How many of `count` it caused: exact with up to four causes, otherwise an upper bound.
    pub cause_count: u64,
}

/// Causes kept per pair.
const CAUSES: usize = 4;

/// A pair of pages with their sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Pair {
    pub victimiser: u32,
    pub victim: u32,
    pub victimiser_side: Side,
    pub victim_side: Side,
}

#[derive(Clone, Copy, Debug)]
struct RowCounts {
    set: u32,
    count: u64,
    /// Addresses with counts; a count of 0 is empty.
    causes: [(u64, u64); CAUSES],
}

/// All rows of an array.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    most: usize,
    rows: FxHashMap<Pair, RowCounts>,
    pub dropped: u64,
}

impl Rows {
    /// At most `most` rows, at least one.
    pub fn new(most: usize) -> Rows {
        Rows { most: most.max(1), rows: FxHashMap::default(), dropped: 0 }
    }

    /// Counts an eviction.
    pub fn add(&mut self, pair: Pair, set: u32, cause: u64) {
        if self.rows.len() == self.most && !self.rows.contains_key(&pair) {
            self.drop_lowest();
        }
        let row = self.rows.entry(pair).or_insert(RowCounts { set, count: 0, causes: [(0, 0); CAUSES] });
        row.count += 1;
        count_cause(&mut row.causes, cause);
    }

    /// Drops rows with the lowest counts until at most half of [`Rows::most`] are left.
    fn drop_lowest(&mut self) {
        let mut counts: Vec<u64> = self.rows.values().map(|row| row.count).collect();
        // Everything that counts no more than the first row beyond this is dropped.
        let keep = self.most / 2;
        let (_, &mut highest, _) = counts.select_nth_unstable_by(keep, |a, b| b.cmp(a));
        let dropped = &mut self.dropped;
        self.rows.retain(|_, row| {
            let stays = row.count > highest;
            *dropped += if stays { 0 } else { row.count };
            stays
        });
    }

    /// All rows, set by set, the most frequent first.
    pub fn finish(self) -> Vec<Row> {
        let row = |(pair, row): (Pair, RowCounts)| {
            let &(cause, cause_count) =
                row.causes.iter().max_by_key(|(at, count)| (*count, !at)).expect("some");
            Row {
                victimiser: pair.victimiser as usize,
                victimiser_side: pair.victimiser_side,
                victim: pair.victim as usize,
                victim_side: pair.victim_side,
                set: row.set as usize,
                count: row.count,
                cause: VirtAddr(cause),
                cause_count,
            }
        };
        let mut rows: Vec<Row> = self.rows.into_iter().map(row).collect();
        rows.sort_by_key(|row| {
            let sides = (row.victimiser_side, row.victim_side);
            (row.set, std::cmp::Reverse(row.count), row.victimiser, row.victim, sides)
        });
        rows
    }
}

/// Counts a cause; if there is no room, it replaces the least frequent one and continues its count (Metwally, Agrawal,
/// El Abbadi, "Efficient Computation of Frequent and Top-k Elements in Data Streams", ICDT 2005).
fn count_cause(causes: &mut [(u64, u64); CAUSES], cause: u64) {
    let found = causes.iter().position(|&(at, count)| at == cause && count > 0);
    let place = found
        .unwrap_or_else(|| (0..CAUSES).min_by_key(|&place| causes[place].1).expect("there is room for some"));
    causes[place] = (cause, causes[place].1 + 1);
}
