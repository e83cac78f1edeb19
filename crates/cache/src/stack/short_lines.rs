//! Lines as words of 31 bits.
//!
//! A set's number gives the lowest bits of its lines. Of the bits above, the lowest [`LOW_BITS`] are kept; what is left
//! above these, the line's *top*, is the same for many lines. Tops get numbers.

/// Bits of a word below the number of a top.
const LOW_BITS: u32 = 22;

/// Tops that have numbers, at most. The next number would be that of an empty place.
const TOPS_MAX: usize = (1 << (31 - LOW_BITS)) - 1;

/// Addresses whose tops have the first numbers, so that caches of one kind mostly give the same words: where Linux
/// programs lie, and page tables.
const USUAL: [u64; 5] = [0, 0x5555 << 32, 0x7fff << 32, 1 << 63, 3 << 62];

/// log2 of the tops that are found at once.
const RECENT_BITS: u32 = 4;

/// Gives words to the lines of one cache.
#[derive(Clone, Debug)]
pub(super) struct ShortLines {
    set_bits: u32,
    /// By number.
    tops: Vec<u64>,
    /// Some tops by their hash, each with its number as words have it.
    recent: [(u64, u32); 1 << RECENT_BITS],
}

impl ShortLines {
    /// `set_bits`: the lowest bits of lines, which the number of their set gives. `line_shift`: log2 of their bytes.
    pub fn new(set_bits: u32, line_shift: u32) -> ShortLines {
        let mut short = ShortLines { set_bits, tops: Vec::new(), recent: [(u64::MAX, 0); 1 << RECENT_BITS] };
        for address in USUAL {
            short.number(address >> line_shift >> set_bits >> LOW_BITS);
        }
        short
    }

    /// The word of a line that comes in; none if there are no more numbers.
    #[inline(always)]
    pub fn word(&mut self, line: u64) -> Option<u32> {
        self.word_by(line, ShortLines::number)
    }

    /// The word of a line that may be here; none if it cannot.
    #[inline(always)]
    pub fn known_word(&mut self, line: u64) -> Option<u32> {
        self.word_by(line, ShortLines::known_number)
    }

    #[inline(always)]
    fn word_by(&mut self, line: u64, number: impl Fn(&mut ShortLines, u64) -> Option<u32>) -> Option<u32> {
        let above = line >> self.set_bits;
        let top = above >> LOW_BITS;
        let (recent, of_recent) = self.recent[slot(top)];
        let number = if recent == top { of_recent } else { number(self, top)? };
        Some(number | above as u32 & ((1 << LOW_BITS) - 1))
    }

    /// The line of a word. `set`: a number whose lowest bits are those of the line.
    #[inline(always)]
    pub fn line(&self, word: u32, set: usize) -> u64 {
        let top = self.tops[(word >> LOW_BITS) as usize];
        let above = top << LOW_BITS | u64::from(word & ((1 << LOW_BITS) - 1));
        above << self.set_bits | set as u64 & ((1 << self.set_bits) - 1)
    }

    /// Whether another cache gives the same words, as far as both give some. If it met other tops first, it never will:
    /// then sets are compared and copied line by line.
    #[inline]
    pub fn agrees_with(&self, other: &ShortLines) -> bool {
        self.tops.iter().zip(&other.tops).all(|(own, other)| own == other)
    }

    /// Gives the words of another cache too, which [agrees](ShortLines::agrees_with).
    #[inline]
    pub fn learn(&mut self, other: &ShortLines) {
        if self.tops.len() < other.tops.len() {
            self.clone_from(other);
        }
    }

    #[cold]
    fn number(&mut self, top: u64) -> Option<u32> {
        let known = self.known_number(top);
        if known.is_some() || self.tops.len() == TOPS_MAX {
            return known;
        }
        self.tops.push(top);
        self.known_number(top)
    }

    #[cold]
    fn known_number(&mut self, top: u64) -> Option<u32> {
        let number = self.tops.iter().position(|&known| known == top)?;
        let number = (number as u32) << LOW_BITS;
        self.recent[slot(top)] = (top, number);
        Some(number)
    }
}

/// Where a top is among those found at once. The factor keeps [usual](USUAL) ones apart.
#[inline(always)]
fn slot(top: u64) -> usize {
    (top.wrapping_mul(0xd640_d974_bd03_24dd) >> (u64::BITS - RECENT_BITS)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Also of lines whose tops share a place among the recent ones.
        #[test]
        fn words_give_their_lines_back(
            set_bits in 0..16_u32,
            lines in prop::collection::vec((0..2_u64, 0..64_u64, 0..1_u64 << 20), 1..300),
        ) {
            let mut short = ShortLines::new(set_bits, 6);
            for (table, process, low) in lines {
                let line = table << 57 | process << 51 | low;
                let word = short.word(line).expect("few tops");
                prop_assert!(word < u32::MAX >> 1);
                prop_assert_eq!(short.line(word, line as usize), line);
            }
        }
    }

    #[test]
    fn numbers_run_out() {
        let mut short = ShortLines::new(0, 6);
        let given = (0..).take_while(|&top: &u64| short.word(top << LOW_BITS).is_some()).count();
        assert!((TOPS_MAX - USUAL.len()..=TOPS_MAX).contains(&given));
        assert_eq!(short.word(1), Some(1), "a known top has its number");
        assert_eq!(short.known_word(1), Some(1));
        assert_eq!(short.known_word(1 << 60), None);
    }

    #[test]
    fn usual_tops_are_found_at_once() {
        for set_bits in 0..=17 {
            let short = ShortLines::new(set_bits, 6);
            for (number, &top) in short.tops.iter().enumerate() {
                assert_eq!(short.recent[slot(top)], (top, (number as u32) << LOW_BITS), "{set_bits}");
            }
        }
    }
}
