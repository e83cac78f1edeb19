//! How far each address moves; looked up for every reference.

use std::collections::BTreeMap;
use std::ops::Range;

/// Pages in the look-up cache.
const REMEMBERED: usize = 1024;
const PAGE_SHIFT: u32 = 12;

/// An unused cache entry: no address is in the page after the last.
const NOTHING: (u64, u64) = (u64::MAX, 0);

/// Ranges of whole pages that move, with their distances.
#[derive(Clone, Debug)]
pub(super) struct Table {
    /// By first address: the end of what moves, and the distance. Disjoint.
    extents: BTreeMap<u64, (u64, u64)>,
    /// Their destinations, also disjoint: by first address, the end.
    places: BTreeMap<u64, u64>,
    /// From the first moving byte to the end of the last.
    all: Range<u64>,
    /// By a page's low bits: a page, and its distance.
    remembered: Box<[(u64, u64)]>,
}

impl Table {
    /// An empty table.
    pub fn new() -> Table {
        let (extents, places) = (BTreeMap::new(), BTreeMap::new());
        Table { extents, places, all: 0..0, remembered: vec![NOTHING; REMEMBERED].into() }
    }

    /// Within `range`, makes exactly these move.
    pub fn replace(&mut self, range: Range<u64>, by: impl Iterator<Item = (Range<u64>, u64)>) {
        self.split_at(range.start);
        self.split_at(range.end);
        let old: Vec<(u64, u64)> =
            self.extents.range(range).map(|(&start, &(_, delta))| (start, delta)).collect();
        for (start, delta) in old {
            self.extents.remove(&start);
            self.places.remove(&start.wrapping_add(delta));
        }
        by.for_each(|(range, delta)| self.insert(range.start, range.end, delta));
        let start = self.extents.first_key_value().map_or(0, |(&start, _)| start);
        let end = self.extents.last_key_value().map_or(0, |(_, &(end, _))| end);
        self.all = start..end;
        self.remembered.fill(NOTHING);
    }

    fn insert(&mut self, start: u64, end: u64, delta: u64) {
        self.extents.insert(start, (end, delta));
        self.places.insert(start.wrapping_add(delta), end.wrapping_add(delta));
    }

    fn split_at(&mut self, address: u64) {
        let Some((&start, &(end, delta))) = self.extents.range(..address).next_back() else { return };
        if address < end {
            self.insert(start, address, delta);
            self.insert(address, end, delta);
        }
    }

    /// The wrapping distance by which `address` moves.
    #[inline(always)]
    pub fn delta(&mut self, address: u64) -> u64 {
        if address.wrapping_sub(self.all.start) >= self.all.end - self.all.start {
            return 0;
        }
        let page = address >> PAGE_SHIFT;
        let (known, delta) = self.remembered[page as usize % REMEMBERED];
        if known == page { delta } else { self.look_up(address) }
    }

    #[cold]
    fn look_up(&mut self, address: u64) -> u64 {
        let delta = self.extent(address).map_or(0, |(_, delta)| delta);
        let page = address >> PAGE_SHIFT;
        self.remembered[page as usize % REMEMBERED] = (page, delta);
        delta
    }

    /// The moving range around `address`.
    fn extent(&self, address: u64) -> Option<(Range<u64>, u64)> {
        let (&start, &(end, delta)) = self.extents.range(..=address).next_back()?;
        (address < end).then_some((start..end, delta))
    }

    /// Whether some of `range` moves, or something moves into it.
    pub fn concerns(&self, range: &Range<u64>) -> bool {
        let moves = self.extents.range(..range.end).next_back().map(|(_, &(end, _))| end);
        let comes = self.places.range(..range.end).next_back().map(|(_, &end)| end);
        [moves, comes].into_iter().flatten().any(|end| end > range.start)
    }

    /// Cuts `range` into pieces that move together; appends them, joining neighbours that stay adjacent.
    pub fn cut(&self, range: Range<u64>, pieces: &mut Vec<(Range<u64>, u64)>) {
        let mut start = range.start;
        while start < range.end {
            let (end, delta) = match self.extent(start) {
                Some((extent, delta)) => (extent.end, delta),
                None => (self.extents.range(start..).next().map_or(range.end, |(&next, _)| next), 0),
            };
            let end = end.min(range.end);
            match pieces.last_mut() {
                Some((last, by)) if last.end == start && *by == delta => last.end = end,
                _ => pieces.push((start..end, delta)),
            }
            start = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PAGE: u64 = 1 << PAGE_SHIFT;
    const PAGES: u64 = 40;
    /// Far from what is looked up, so that places do not overlap.
    const APART: u64 = PAGES * PAGE;

    /// Consecutive pages, and their distance in steps of [`APART`]; 0 means not at all.
    fn change() -> impl Strategy<Value = (u64, u64, u64)> {
        (0..PAGES, 1..9u64, 0..4u64)
    }

    proptest! {
        #[test]
        fn it_says_what_a_list_of_pages_says(changes in prop::collection::vec(change(), 0..30)) {
            let mut table = Table::new();
            let mut pages = [0; PAGES as usize];
            for (first, count, times) in changes {
                let range = first..(first + count).min(PAGES);
                pages[range.start as usize..range.end as usize].fill(times * APART);
                let bytes = range.start * PAGE..range.end * PAGE;
                table.replace(bytes.clone(), (times > 0).then_some((bytes, times * APART)).into_iter());
                for (page, &delta) in pages.iter().enumerate() {
                    prop_assert_eq!(table.delta(page as u64 * PAGE + PAGE - 1), delta);
                }
                let moves = pages[range.start as usize..range.end as usize].iter().any(|&delta| delta > 0);
                prop_assert_eq!(table.concerns(&(range.start * PAGE..range.end * PAGE)), moves);
                for steps in 1..4u64 {
                    let to = APART * steps + range.start * PAGE..APART * steps + range.end * PAGE;
                    let comes = pages[range.start as usize..range.end as usize].contains(&(steps * APART));
                    prop_assert_eq!(table.concerns(&to), comes);
                }
                let mut pieces = Vec::new();
                table.cut(0..PAGES * PAGE, &mut pieces);
                let listed: Vec<u64> = pieces
                    .iter()
                    .flat_map(|(piece, delta)| vec![*delta; ((piece.end - piece.start) / PAGE) as usize])
                    .collect();
                prop_assert_eq!(&listed, &pages);
                prop_assert!(pieces.windows(2).all(|two| two[0].1 != two[1].1), "neighbours are joined");
            }
        }
    }
}
