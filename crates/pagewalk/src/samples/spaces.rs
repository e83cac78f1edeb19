//! What processes had mapped, from the records of a file.

use pagewalk_capture::samples::MappedRange;
use std::collections::BTreeMap;

/// A process's memory. Nothing says when memory is unmapped: a range stays until another takes its place.
#[derive(Clone, Debug, Default)]
pub struct Space {
    /// Its name.
    pub command: String,
    ranges: BTreeMap<u64, MappedRange>,
}

impl Space {
    /// Maps a range in place of what was there. The kernel joins new anonymous memory to its neighbours before it
    /// reports it: what was known at its borders is left out, so that a range stays what one call mapped.
    pub fn map(&mut self, mut new: MappedRange) {
        while let Some(known) = self.ranges.get(&new.start)
            && new.name.is_empty()
            && known.name.is_empty()
            && known.end < new.end
        {
            new.start = known.end;
        }
        while let Some((_, known)) = self.ranges.range(..new.end).next_back()
            && new.name.is_empty()
            && known.name.is_empty()
            && known.end == new.end
            && known.start > new.start
        {
            new.end = known.start;
        }
        while let Some((&start, old)) = self.ranges.range(..new.end).next_back()
            && old.end > new.start
        {
            let old = old.clone();
            self.ranges.remove(&start);
            if old.end > new.end {
                let offset = old.offset.wrapping_add(new.end - old.start);
                self.ranges.insert(new.end, MappedRange { start: new.end, offset, ..old.clone() });
            }
            if start < new.start {
                self.ranges.insert(start, MappedRange { end: new.start, ..old });
            }
        }
        self.ranges.insert(new.start, new);
    }

    /// Forgets all memory: another program begins.
    pub fn clear(&mut self) {
        self.ranges.clear();
    }

    /// The range that holds an address.
    pub fn find(&self, address: u64) -> Option<&MappedRange> {
        let (_, range) = self.ranges.range(..=address).next_back()?;
        (address < range.end).then_some(range)
    }

    /// All ranges, by address.
    pub fn ranges(&self) -> impl DoubleEndedIterator<Item = &MappedRange> {
        self.ranges.values()
    }

    /// Bytes of `[start, end)` that are mapped.
    pub fn mapped_bytes(&self, start: u64, end: u64) -> u64 {
        let ranges = self.ranges.range(..end).rev().map(|(_, range)| range);
        let overlapping = ranges.take_while(|range| range.end > start);
        overlapping.map(|range| range.end.min(end) - range.start.max(start)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, end: u64, name: &str) -> MappedRange {
        MappedRange { process: 1, start, end, offset: start, name: name.to_owned() }
    }

    #[test]
    fn anonymous_memory_stays_what_each_call_mapped() {
        let mut space = Space::default();
        for (start, end) in [(40, 50), (30, 50), (30, 60), (10, 60), (100, 110), (90, 120), (100, 105)] {
            space.map(range(start, end, ""));
        }
        space.map(range(10, 30, "/file"));
        let all: Vec<_> = space.ranges().map(|range| (range.start, range.end, range.name.as_str())).collect();
        let joined =
            [(30, 40, ""), (40, 50, ""), (50, 60, ""), (90, 100, ""), (100, 105, ""), (105, 120, "")];
        assert_eq!(all, [&[(10, 30, "/file")], &joined[..]].concat());
    }

    /// The twin: the name and offset of each unit of memory.
    #[test]
    fn the_last_range_of_each_address_is_found() {
        let mut space = Space::default();
        let mut slow: Vec<Option<(String, u64)>> = vec![None; 64];
        let mut random = 12345u64;
        for number in 0..400 {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let start = random >> 33 & 31;
            let end = start + 1 + (random >> 40 & 15);
            let name = format!("{number}");
            space.map(range(start, end, &name));
            for at in start..end {
                slow[at as usize] = Some((name.clone(), at));
            }
            for at in 0..64 {
                let found = space.find(at).map(|found| (found.name.clone(), found.offset + at - found.start));
                assert_eq!(found, slow[at as usize]);
            }
            let mapped = slow[10..40].iter().flatten().count() as u64;
            assert_eq!(space.mapped_bytes(10, 40), mapped);
        }
    }
}
