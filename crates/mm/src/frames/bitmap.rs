//! Sets of small numbers as bits: [`Bitmap`], and [`IndexSet`], which also finds its smallest member fast.
//!
//! New sets are zeroed memory, which the system backs at first writes: a sparse set costs little.

use std::ops::Range;

const WORD: u64 = u64::BITS as u64;

/// A set of numbers below a bound, one bit each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bitmap {
    words: Vec<u64>,
}

impl Bitmap {
    /// An empty set of numbers below `bound`.
    pub fn new(bound: u64) -> Bitmap {
        Bitmap { words: vec![0; bound.div_ceil(WORD) as usize] }
    }

    /// Whether `index` is a member; numbers at or above the bound are not.
    #[inline]
    pub fn contains(&self, index: u64) -> bool {
        self.words.get((index / WORD) as usize).is_some_and(|word| word >> (index % WORD) & 1 == 1)
    }

    #[inline]
    pub fn insert(&mut self, index: u64) {
        self.words[(index / WORD) as usize] |= 1 << (index % WORD);
    }

    #[inline]
    pub fn remove(&mut self, index: u64) {
        self.words[(index / WORD) as usize] &= !(1 << (index % WORD));
    }

    /// The words that overlap `range`, with its bits.
    #[inline]
    fn masks(range: Range<u64>) -> impl Iterator<Item = (usize, u64)> {
        let words = range.start / WORD..range.end.div_ceil(WORD).max(range.start / WORD);
        words.map(move |word| {
            let from = range.start.max(word * WORD) - word * WORD;
            let to = range.end.min((word + 1) * WORD) - word * WORD;
            let below = |bits: u64| if bits == WORD { u64::MAX } else { (1 << bits) - 1 };
            (word as usize, below(to) & !below(from))
        })
    }

    pub fn insert_range(&mut self, range: Range<u64>) {
        for (word, mask) in Bitmap::masks(range) {
            self.words[word] |= mask;
        }
    }

    pub fn remove_range(&mut self, range: Range<u64>) {
        for (word, mask) in Bitmap::masks(range) {
            self.words[word] &= !mask;
        }
    }

    /// The number of members in `range`.
    pub fn count(&self, range: Range<u64>) -> u64 {
        Bitmap::masks(range).map(|(word, mask)| u64::from((self.words[word] & mask).count_ones())).sum()
    }

    /// Whether some member lies in `range`.
    pub fn any(&self, range: Range<u64>) -> bool {
        Bitmap::masks(range).any(|(word, mask)| self.words[word] & mask != 0)
    }

    /// The members in `range`, ascending.
    pub fn members(&self, range: Range<u64>) -> impl Iterator<Item = u64> + '_ {
        Bitmap::masks(range).flat_map(|(word, mask)| {
            let mut rest = self.words[word] & mask;
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| u64::from(rest.trailing_zeros()))?;
                rest &= rest - 1;
                Some(word as u64 * WORD + bit)
            })
        })
    }
}

/// A bitmap with summaries: each bit of a higher level says whether a word of the level below has any members.
///
/// Cost: insert, remove and first touch one word per level, four levels for 16 Mi numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IndexSet {
    levels: Vec<Bitmap>,
    len: u64,
}

impl IndexSet {
    /// An empty set of numbers below `bound`.
    pub fn new(bound: u64) -> IndexSet {
        let mut levels = vec![Bitmap::new(bound)];
        while let words = levels.last().map_or(0, |level| level.words.len())
            && words > 1
        {
            levels.push(Bitmap::new(words as u64));
        }
        IndexSet { levels, len: 0 }
    }

    /// The number of members.
    #[inline]
    pub fn len(&self) -> u64 {
        self.len
    }

    #[inline]
    pub fn contains(&self, index: u64) -> bool {
        self.levels[0].contains(index)
    }

    /// Inserts a number that is no member.
    #[inline]
    pub fn insert(&mut self, index: u64) {
        debug_assert!(!self.contains(index));
        self.len += 1;
        let mut index = index;
        for level in &mut self.levels {
            let word = &mut level.words[(index / WORD) as usize];
            let had_any = *word != 0;
            *word |= 1 << (index % WORD);
            if had_any {
                break;
            }
            index /= WORD;
        }
    }

    /// Removes a number; false if it is no member.
    #[inline]
    pub fn remove(&mut self, index: u64) -> bool {
        if !self.contains(index) {
            return false;
        }
        self.len -= 1;
        let mut index = index;
        for level in &mut self.levels {
            let word = &mut level.words[(index / WORD) as usize];
            *word &= !(1 << (index % WORD));
            if *word != 0 {
                break;
            }
            index /= WORD;
        }
        true
    }

    /// The smallest member.
    #[inline]
    pub fn first(&self) -> Option<u64> {
        if self.len == 0 {
            return None;
        }
        let down = self.levels.iter().rev();
        Some(
            down.fold(0, |index, level| {
                index * WORD + u64::from(level.words[index as usize].trailing_zeros())
            }),
        )
    }

    /// The members as bits.
    pub fn bits(&self) -> &Bitmap {
        &self.levels[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn sets_of_numbers(
            bound in 1..20_000_u64, ops in prop::collection::vec((any::<bool>(), any::<u64>()), 0..200),
        ) {
            let (mut set, mut slow) = (IndexSet::new(bound), BTreeSet::new());
            for (insert, number) in ops {
                let number = number % bound;
                if insert && slow.insert(number) {
                    set.insert(number);
                } else {
                    prop_assert_eq!(set.remove(number), slow.remove(&number));
                }
                prop_assert_eq!((set.len(), set.first()), (slow.len() as u64, slow.first().copied()));
            }
            prop_assert!(set.bits().members(0..bound).eq(slow.iter().copied()));
            prop_assert!(!set.contains(bound) && !set.contains(u64::MAX));
        }

        #[test]
        fn ranges(
            bound in 1..400_u64, ops in prop::collection::vec((any::<bool>(), any::<u64>(), any::<u64>()), 0..40),
        ) {
            let (mut bits, mut slow) = (Bitmap::new(bound), BTreeSet::new());
            for (insert, a, b) in ops {
                let (a, b) = (a % (bound + 1), b % (bound + 1));
                let range = a.min(b)..a.max(b);
                prop_assert_eq!(bits.count(range.clone()), slow.range(range.clone()).count() as u64);
                prop_assert_eq!(bits.any(range.clone()), slow.range(range.clone()).next().is_some());
                if insert {
                    bits.insert_range(range.clone());
                    slow.extend(range);
                } else {
                    bits.remove_range(range.clone());
                    slow.retain(|number| !range.contains(number));
                }
                prop_assert!(bits.members(0..bound).eq(slow.iter().copied()));
            }
        }
    }
}
