//! How far each address moves: asked once for every reference.

use std::ops::Range;

/// Pages whose answers are remembered.
const REMEMBERED: usize = 1024;
const PAGE_SHIFT: u32 = 12;

/// Ranges that move, and by how much. Ranges are of whole pages.
#[derive(Clone, Debug)]
pub(super) struct Table {
    /// By ascending address; they do not overlap.
    extents: Vec<(Range<u64>, u64)>,
    /// From the first byte that moves to behind the last.
    all: Range<u64>,
    /// By a page's low bits: a page, and how far it moves.
    remembered: Box<[(u64, u64)]>,
}

impl Table {
    /// Of ranges by ascending address. Neighbours that move alike are made one.
    pub fn new(ranges: impl Iterator<Item = (Range<u64>, u64)>) -> Table {
        let mut extents: Vec<(Range<u64>, u64)> = Vec::new();
        for (range, delta) in ranges {
            match extents.last_mut() {
                Some((last, by)) if last.end == range.start && *by == delta => last.end = range.end,
                _ => extents.push((range, delta)),
            }
        }
        let start = extents.first().map_or(0, |(first, _)| first.start);
        let end = extents.last().map_or(0, |(last, _)| last.end);
        // No address is in the page behind the last.
        let nothing = (u64::MAX, 0);
        Table { extents, all: start..end, remembered: vec![nothing; REMEMBERED].into() }
    }

    /// How far `address` moves, as an addition that wraps.
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

    /// What moves with `address`.
    fn extent(&self, address: u64) -> Option<(Range<u64>, u64)> {
        let behind = self.extents.partition_point(|(range, _)| range.start <= address);
        let (range, delta) = self.extents.get(behind.checked_sub(1)?)?;
        range.contains(&address).then(|| (range.clone(), *delta))
    }

    /// Whether some of `range` moves, or something moves into it.
    pub fn concerns(&self, range: &Range<u64>) -> bool {
        let overlaps = |start: u64, end: u64| start < range.end && range.start < end;
        self.extents.iter().any(|(from, delta)| {
            let to = (from.start.wrapping_add(*delta), from.end.wrapping_add(*delta));
            overlaps(from.start, from.end) || overlaps(to.0, to.1)
        })
    }

    /// Cuts `range` so that each piece moves as one; appends the pieces, joining those that stay neighbours.
    pub fn cut(&self, range: Range<u64>, pieces: &mut Vec<(Range<u64>, u64)>) {
        let mut start = range.start;
        while start < range.end {
            let (end, delta) = match self.extent(start) {
                Some((extent, delta)) => (extent.end, delta),
                None => {
                    let next = self.extents.partition_point(|(extent, _)| extent.start <= start);
                    (self.extents.get(next).map_or(range.end, |(extent, _)| extent.start), 0)
                }
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
