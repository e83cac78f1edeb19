//! Pairs of pages that met in a set, and what brought the one that came.

use super::Side;
use pagewalk_units::VirtAddr;
use rustc_hash::FxHashMap;

/// How often one page took another's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The page that came: index into [`super::History::pages`].
    pub victimiser: usize,
    /// What brought it.
    pub victimiser_side: Side,
    /// The page that went.
    pub victim: usize,
    /// What had brought it.
    pub victim_side: Side,
    /// Their set.
    pub set: usize,
    /// How often.
    pub count: u64,
    /// The instruction fetched, or the byte loaded or stored, that caused most of it.
    pub cause: VirtAddr,
    /// How much of `count` it caused: exact while the pair has up to four causes, else never too low.
    pub cause_count: u64,
}

/// Causes kept of each pair.
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
    /// Addresses with counts; those with a count of 0 are empty.
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
    /// At most `most` rows, one at least.
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
        // Behind so many of the largest counts, all goes, with whatever counts as much.
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

/// Counts a cause; in the place of the least where there is no room, from that one's count on (Metwally, Agrawal,
/// El Abbadi, "Efficient Computation of Frequent and Top-k Elements in Data Streams", ICDT 2005).
fn count_cause(causes: &mut [(u64, u64); CAUSES], cause: u64) {
    let found = causes.iter().position(|&(at, count)| at == cause && count > 0);
    let place = found
        .unwrap_or_else(|| (0..CAUSES).min_by_key(|&place| causes[place].1).expect("there is room for some"));
    causes[place] = (cause, causes[place].1 + 1);
}
