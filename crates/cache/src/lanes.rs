//! Searching a set, and moving a line to its front, four lines at a time.
//!
//! [`Work`] on sets is written once against [`Lanes`] and compiled twice: for any processor, and for AVX2. An
//! [`Avx2`] is created only by querying the processor, which makes its methods safe.

/// Set in a place whose line is dirty: stored to and not yet written back. Lines have smaller numbers.
pub(crate) const DIRTY: u64 = 1 << 63;

/// Work on the places of one set, whose number is a multiple of four.
pub(crate) trait Lanes: Copy {
    /// The first place of a line, which may be dirty there.
    fn place_of<const MOST: usize>(self, lines: &[u64; MOST], line: u64) -> Option<usize>;

    /// Moves the line in a place to the front; those before it move back.
    fn to_front<const MOST: usize>(self, lines: &mut [u64; MOST], place: usize);
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
        // SAFETY: the function enables AVX2 alone, and `avx2` proves that the processor has it.
        return unsafe { run_avx2(avx2, work) };
    }
    work.run(Portable)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn run_avx2<W: Work>(avx2: Avx2, work: W) -> W::Result {
    work.run(avx2)
}

/// Any processor. Without branches: where a line is cannot be foretold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portable;

impl Lanes for Portable {
    #[inline(always)]
    fn place_of<const MOST: usize>(self, lines: &[u64; MOST], line: u64) -> Option<usize> {
        let mut found = MOST;
        for at in (0..MOST).rev() {
            found = if lines[at] & !DIRTY == line { at } else { found };
        }
        (found < MOST).then_some(found)
    }

    #[inline(always)]
    fn to_front<const MOST: usize>(self, lines: &mut [u64; MOST], place: usize) {
        let before = *lines;
        for at in 1..MOST {
            lines[at] = if at <= place { before[at - 1] } else { before[at] };
        }
        lines[0] = before[place];
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) use avx2::Avx2;

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::{DIRTY, Lanes};
    use std::arch::x86_64::*;

    /// A processor with AVX2.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Avx2(());

    impl Avx2 {
        /// The proof, if the processor has AVX2.
        #[inline]
        pub fn detect() -> Option<Avx2> {
            std::arch::is_x86_feature_detected!("avx2").then_some(Avx2(()))
        }
    }

    impl Lanes for Avx2 {
        #[inline(always)]
        fn place_of<const MOST: usize>(self, lines: &[u64; MOST], line: u64) -> Option<usize> {
            let mut held = 0;
            for (number, four) in lines.as_chunks::<4>().0.iter().enumerate() {
                // SAFETY: `self` proves that the processor has AVX2; the 32 bytes are those of `four`.
                let mask = unsafe {
                    let four = _mm256_loadu_si256(four.as_ptr().cast());
                    let clean = _mm256_and_si256(four, _mm256_set1_epi64x(!DIRTY as i64));
                    let equal = _mm256_cmpeq_epi64(clean, _mm256_set1_epi64x(line as i64));
                    _mm256_movemask_pd(_mm256_castsi256_pd(equal))
                };
                held |= (mask as u32) << (4 * number);
            }
            (held != 0).then(|| held.trailing_zeros() as usize)
        }

        #[inline(always)]
        fn to_front<const MOST: usize>(self, lines: &mut [u64; MOST], place: usize) {
            let line = lines[place];
            // The last first: each four reads the last of the four before it.
            for first in (0..MOST / 4).rev().map(|number| 4 * number) {
                let own = &mut lines[first.saturating_sub(1)..first + 4];
                let last_four = own.len() - 4;
                // SAFETY: `self` proves that the processor has AVX2; the 32 bytes read and written are the first or the
                // last of `own`, which has four words if `first` is 0, else five.
                unsafe {
                    let before = own.as_mut_ptr();
                    let at = before.add(last_four);
                    let here = _mm256_loadu_si256(at.cast());
                    let moved = if first == 0 {
                        let back = _mm256_permute4x64_epi64::<0b10_01_00_00>(here);
                        _mm256_blend_epi32::<0b11>(back, _mm256_set1_epi64x(line as i64))
                    } else {
                        _mm256_loadu_si256(before.cast())
                    };
                    let index =
                        _mm256_add_epi64(_mm256_setr_epi64x(0, 1, 2, 3), _mm256_set1_epi64x(first as i64));
                    let stays = _mm256_cmpgt_epi64(index, _mm256_set1_epi64x(place as i64));
                    _mm256_storeu_si256(at.cast(), _mm256_blendv_epi8(moved, here, stays));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check<const MOST: usize>(lines: &[u64], line: u64) -> Result<(), TestCaseError> {
        let own: [u64; MOST] = lines[..MOST].try_into().expect("enough lines");
        let place = own.iter().position(|&held| held & !DIRTY == line);
        let mut expected = own.to_vec();
        if let Some(place) = place {
            expected[..=place].rotate_right(1);
        }
        let equals = |found: Option<usize>, moved: [u64; MOST]| {
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
        fn all_processors_do_the_same(
            lines in prop::collection::vec((0..40_u64, any::<bool>()), 32),
            line in 0..40_u64,
        ) {
            let place = |(line, dirty): (u64, bool)| if dirty { line | DIRTY } else { line };
            let lines: Vec<u64> = lines.into_iter().map(place).collect();
            check::<4>(&lines, line)?;
            check::<8>(&lines, line)?;
            check::<12>(&lines, line)?;
            check::<16>(&lines, line)?;
            check::<32>(&lines, line)?;
        }
    }
}
