//! Searching a set, and moving a line to its front, several lines at a time.
//!
//! [`Work`] on sets is written once against [`Lanes`] and compiled twice: for any processor, and for AVX2, BMI1
//! and BMI2. An [`Avx2`] is created only by querying the processor, which makes its methods safe.

use crate::place::{Found, Place};

/// Set in a place whose line is dirty: stored to and not yet written back. Lines are smaller words.
pub(crate) const DIRTY: u32 = 1 << 31;

/// Work on the places of one set.
pub(crate) trait Lanes: Copy {
    /// The first place of a line, which may be dirty there. The places are a multiple of eight.
    fn place_of<const MOST: usize>(self, lines: &[u32; MOST], line: u32) -> Option<usize>;

    /// Moves the line in a place to the front; those before it move back. The places are a multiple of eight.
    fn to_front<const MOST: usize>(self, lines: &mut [u32; MOST], place: usize);

    /// Searches the places of a set, at least one, for a line, and for the line used before all others.
    fn search(self, set: &[Place], line: u64) -> Found;
}

/// Work on sets, for [`run`].
pub(crate) trait Work {
    type Result;

    /// Does it. Implementations are inlined, so that they are compiled for the processor.
    fn run(self, lanes: impl Lanes) -> Self::Result;
}

/// Does work by the best means that the processor has.
#[inline(always)]
pub(crate) fn run<W: Work>(work: W) -> W::Result {
    #[cfg(target_arch = "x86_64")]
    if let Some(avx2) = Avx2::detect() {
        // SAFETY: `avx2` proves that the processor has what the function enables.
        return unsafe { run_avx2(avx2, work) };
    }
    work.run(Portable)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2")]
fn run_avx2<W: Work>(avx2: Avx2, work: W) -> W::Result {
    work.run(avx2)
}

/// Any processor. Without branches: where a line is cannot be foretold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portable;

impl Lanes for Portable {
    #[inline(always)]
    fn place_of<const MOST: usize>(self, lines: &[u32; MOST], line: u32) -> Option<usize> {
        let mut found = MOST;
        for at in (0..MOST).rev() {
            found = if lines[at] & !DIRTY == line { at } else { found };
        }
        (found < MOST).then_some(found)
    }

    #[inline(always)]
    fn to_front<const MOST: usize>(self, lines: &mut [u32; MOST], place: usize) {
        let before = *lines;
        for at in 1..MOST {
            lines[at] = if at <= place { before[at - 1] } else { before[at] };
        }
        lines[0] = before[place];
    }

    #[inline(always)]
    fn search(self, set: &[Place], line: u64) -> Found {
        let (mut held, mut oldest, mut age) = (usize::MAX, 0, u32::MAX);
        for (at, place) in set.iter().enumerate() {
            let used = place.used();
            held = if place.line == line { at } else { held };
            oldest = if used < age { at } else { oldest };
            age = age.min(used);
        }
        Found { held: (held != usize::MAX).then_some(held), oldest }
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) use avx2::Avx2;

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::{DIRTY, Lanes, Portable};
    use crate::place::{Found, Place};
    use std::arch::is_x86_feature_detected;
    use std::arch::x86_64::*;

    /// As many fours of places as a mask has bits for.
    const IN_A_MASK: usize = u64::BITS as usize / 4;

    /// A processor with AVX2, BMI1 and BMI2.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Avx2(());

    impl Avx2 {
        /// The proof, if the processor has them.
        #[inline]
        pub fn detect() -> Option<Avx2> {
            let has_all = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2");
            has_all.then_some(Avx2(()))
        }
    }

    impl Lanes for Avx2 {
        #[inline(always)]
        fn place_of<const MOST: usize>(self, lines: &[u32; MOST], line: u32) -> Option<usize> {
            const { assert!(MOST.is_multiple_of(8)) };
            let mut held = 0;
            for (number, eight) in lines.as_chunks::<8>().0.iter().enumerate() {
                // SAFETY: `self` proves that the processor has AVX2; the 32 bytes are those of `eight`.
                let mask = unsafe {
                    let eight = _mm256_loadu_si256(eight.as_ptr().cast());
                    let clean = _mm256_and_si256(eight, _mm256_set1_epi32(!DIRTY as i32));
                    let equal = _mm256_cmpeq_epi32(clean, _mm256_set1_epi32(line as i32));
                    _mm256_movemask_ps(_mm256_castsi256_ps(equal))
                };
                held |= (mask as u32) << (8 * number);
            }
            (held != 0).then(|| held.trailing_zeros() as usize)
        }

        #[inline(always)]
        fn to_front<const MOST: usize>(self, lines: &mut [u32; MOST], place: usize) {
            const { assert!(MOST.is_multiple_of(8)) };
            let line = lines[place];
            // The last first: each eight reads the last of the eight before it.
            for first in (0..MOST / 8).rev().map(|number| 8 * number) {
                let own = &mut lines[first.saturating_sub(1)..first + 8];
                let last_eight = own.len() - 8;
                // SAFETY: `self` proves that the processor has AVX2; the 32 bytes read and written are the first or the
                // last of `own`, which has eight words if `first` is 0, else nine.
                unsafe {
                    let before = own.as_mut_ptr();
                    let at = before.add(last_eight);
                    let here = _mm256_loadu_si256(at.cast());
                    let moved = if first == 0 {
                        let nearer = _mm256_setr_epi32(0, 0, 1, 2, 3, 4, 5, 6);
                        let back = _mm256_permutevar8x32_epi32(here, nearer);
                        _mm256_blend_epi32::<1>(back, _mm256_set1_epi32(line as i32))
                    } else {
                        _mm256_loadu_si256(before.cast())
                    };
                    let eight = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
                    let index = _mm256_add_epi32(eight, _mm256_set1_epi32(first as i32));
                    let stays = _mm256_cmpgt_epi32(index, _mm256_set1_epi32(place as i32));
                    _mm256_storeu_si256(at.cast(), _mm256_blendv_epi8(moved, here, stays));
                }
            }
        }

        #[inline(always)]
        fn search(self, set: &[Place], line: u64) -> Found {
            let (fours, rest) = set.as_chunks::<4>();
            if !rest.is_empty() || fours.len() > IN_A_MASK {
                return Portable.search(set, line);
            }
            // The order in which vectors have the places of a four.
            const ORDER: [i64; 4] = [0, 2, 1, 3];
            let mut held = 0_u64;
            let mut ages = [i64::MAX; 4];
            // SAFETY: `self` proves that the processor has AVX2. Places have 16 bytes; the 32 bytes read are two of
            // `four`, the 32 written are those of `ages`.
            unsafe {
                let mut oldest = _mm256_set1_epi64x(i64::MAX);
                let mut order = _mm256_setr_epi64x(ORDER[0], ORDER[1], ORDER[2], ORDER[3]);
                for (number, four) in fours.iter().enumerate() {
                    let one = _mm256_loadu_si256(four.as_ptr().cast());
                    let two = _mm256_loadu_si256(four.as_ptr().add(2).cast());
                    let lines = _mm256_unpacklo_epi64(one, two);
                    let equal = _mm256_cmpeq_epi64(lines, _mm256_set1_epi64x(line as i64));
                    held |= (_mm256_movemask_pd(_mm256_castsi256_pd(equal)) as u64) << (4 * number);
                    // Both times of use, then the later one before the number of its place.
                    let uses = _mm256_unpackhi_epi64(one, two);
                    let used = _mm256_max_epu32(uses, _mm256_srli_epi64::<32>(uses));
                    let age = _mm256_srli_epi64::<16>(_mm256_slli_epi64::<32>(used));
                    let age = _mm256_or_si256(age, order);
                    oldest = _mm256_blendv_epi8(oldest, age, _mm256_cmpgt_epi64(oldest, age));
                    order = _mm256_add_epi64(order, _mm256_set1_epi64x(4));
                }
                _mm256_storeu_si256(ages.as_mut_ptr().cast(), oldest);
            }
            let oldest = ages.into_iter().min().expect("four");
            let bit = held.trailing_zeros() as usize;
            let held = (held != 0).then(|| bit / 4 * 4 + ORDER[bit % 4] as usize);
            Found { held, oldest: usize::from(oldest as u16) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn check<const MOST: usize>(lines: &[u32], line: u32) -> Result<(), TestCaseError> {
        let own: [u32; MOST] = lines[..MOST].try_into().expect("enough lines");
        let place = own.iter().position(|&held| held & !DIRTY == line);
        let mut expected = own.to_vec();
        if let Some(place) = place {
            expected[..=place].rotate_right(1);
        }
        let equals = |found: Option<usize>, moved: [u32; MOST]| {
            prop_assert_eq!(found, place);
            prop_assert_eq!(&moved[..], &expected[..]);
            Ok(())
        };
        let mut moved = own;
        place.into_iter().for_each(|place| Portable.to_front(&mut moved, place));
        equals(Portable.place_of(&own, line), moved)?;
        #[cfg(target_arch = "x86_64")]
        if let Some(avx2) = Avx2::detect() {
            let mut moved = own;
            place.into_iter().for_each(|place| avx2.to_front(&mut moved, place));
            equals(avx2.place_of(&own, line), moved)?;
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn all_processors_find_the_same(
            places in prop::collection::vec((0..100_u64, any::<[u32; 2]>()), 1..160),
            few_times in any::<bool>(),
            line in 0..100_u64,
        ) {
            let time = |time: u32| if few_times { time % 4 } else { time };
            let place = |(line, uses): (u64, [u32; 2])| Place { line, uses: uses.map(time) };
            // A set has a line once.
            let mut known = HashSet::new();
            let set: Vec<Place> =
                places.into_iter().filter(|&(line, _)| known.insert(line)).map(place).collect();
            let found = Found {
                held: set.iter().position(|place| place.line == line),
                oldest: (0..set.len()).min_by_key(|&at| set[at].used()).expect("places"),
            };
            prop_assert_eq!(Portable.search(&set, line), found);
            #[cfg(target_arch = "x86_64")]
            if let Some(avx2) = Avx2::detect() {
                prop_assert_eq!(avx2.search(&set, line), found);
            }
        }

        #[test]
        fn all_processors_do_the_same(
            lines in prop::collection::vec((0..40_u32, any::<bool>()), 32),
            line in 0..40_u32,
        ) {
            let place = |(line, dirty): (u32, bool)| if dirty { line | DIRTY } else { line };
            let lines: Vec<u32> = lines.into_iter().map(place).collect();
            check::<8>(&lines, line)?;
            check::<16>(&lines, line)?;
            check::<32>(&lines, line)?;
        }
    }
}
