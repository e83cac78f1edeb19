//! Counts each page of memory once, however often it is mapped.

use rustc_hash::FxHashMap;

/// Pages per chunk: 128 MiB.
const CHUNK: u64 = 1 << 15;
const WORDS: usize = CHUNK as usize / 64;

/// A set of page numbers.
#[derive(Clone, Debug, Default)]
pub struct DistinctPages {
    chunks: FxHashMap<u64, Chunk>,
    /// Distinct pages.
    pub pages: u64,
    /// Pages added more than once.
    pub repeated: u64,
}

/// One bit per page.
#[derive(Clone, Debug)]
struct Chunk {
    seen: [u64; WORDS],
    again: [u64; WORDS],
}

impl DistinctPages {
    /// The distinct pages, in unspecified order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        let words = self.chunks.iter().flat_map(|(number, chunk)| {
            (0..).zip(&chunk.seen).map(move |(at, &word)| (number * CHUNK + 64 * at, word))
        });
        words.filter(|&(_, word)| word != 0).flat_map(|(first, word)| {
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| first + bit)
        })
    }

    /// Adds `count` pages from `first` on.
    pub fn add(&mut self, first: u64, count: u64) {
        let (mut at, end) = (first, first.saturating_add(count));
        while at < end {
            let many = (64 - at % 64).min(end - at);
            let mask = (u64::MAX >> (64 - many)) << (at % 64);
            let empty = || Chunk { seen: [0; WORDS], again: [0; WORDS] };
            let chunk = self.chunks.entry(at / CHUNK).or_insert_with(empty);
            let word = (at % CHUNK / 64) as usize;
            let (seen, again) = (&mut chunk.seen[word], &mut chunk.again[word]);
            self.pages += u64::from((mask & !*seen).count_ones());
            self.repeated += u64::from((mask & *seen & !*again).count_ones());
            *again |= mask & *seen;
            *seen |= mask;
            at += many;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn what_is_mapped_three_times_counts_once() {
        let mut once = DistinctPages::default();
        (0..3).for_each(|_| once.add(CHUNK - 100, 200));
        once.add(5, 1);
        assert_eq!((once.pages, once.repeated), (201, 200));
    }

    proptest! {
        /// Checks page by page.
        #[test]
        fn pages_are_counted_as_one_by_one(runs in prop::collection::vec((0u64..70_000, 0u64..300), 0..20)) {
            let (mut once, mut slow) = (DistinctPages::default(), BTreeMap::new());
            for (first, count) in runs {
                once.add(first, count);
                (first..first + count).for_each(|page| *slow.entry(page).or_insert(0) += 1);
            }
            prop_assert_eq!(once.pages, slow.len() as u64);
            prop_assert_eq!(once.repeated, slow.values().filter(|&&times| times > 1).count() as u64);
        }
    }
}
