//! Arithmetic on four words at a time.
//!
//! The hot loops of encoder and decoder are written once against [`Simd`] and compiled twice: for any processor, and
//! for AVX2, where the same code runs about twice as fast. By itself, the compiler vectorises one loop but not the
//! other.
//!
//! A value of a [`Simd`] type proves that its instructions may run. An [`Avx2`] is created only by querying the
//! processor, which makes its methods safe.

/// Words in a vector.
pub(super) const LANES: usize = 4;

/// The words of a vector.
pub(super) type Lanes = [u64; LANES];

/// Arithmetic on vectors of [`LANES`] words, lane by lane, modulo 2^64.
pub(super) trait Simd: Copy {
    /// A vector.
    type V: Copy;

    fn load(self, words: &Lanes) -> Self::V;
    fn store(self, vector: Self::V, words: &mut Lanes);
    fn splat(self, word: u64) -> Self::V;
    fn and(self, a: Self::V, b: Self::V) -> Self::V;
    /// The bits of `a` that `b` does not have.
    fn and_not(self, a: Self::V, b: Self::V) -> Self::V;
    fn or(self, a: Self::V, b: Self::V) -> Self::V;
    fn xor(self, a: Self::V, b: Self::V) -> Self::V;
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    /// All ones where the lanes are equal, else zero.
    fn equal(self, a: Self::V, b: Self::V) -> Self::V;
    /// Lanes of `yes` where bit `BIT` of `by` is set, else of `no`.
    fn select<const BIT: i32>(self, by: Self::V, yes: Self::V, no: Self::V) -> Self::V {
        self.select_top(self.to_top::<BIT>(by), yes, no)
    }
    /// Moves bit `BIT` of each lane to the top.
    fn to_top<const BIT: i32>(self, a: Self::V) -> Self::V;
    /// Moves the top bit of each lane to bit `BIT`, and clears the others.
    fn top_to<const BIT: i32>(self, a: Self::V) -> Self::V;
    /// Lanes of `yes` where the top bit of `by` is set, else of `no`.
    fn select_top(self, by: Self::V, yes: Self::V, no: Self::V) -> Self::V;
    /// The upper word of `pair` where bit 1 of `by` is set, else the lower.
    fn pick(self, by: Self::V, pair: &[u64; 2]) -> Self::V;
    /// A bit for each lane that is zero.
    fn zeros(self, a: Self::V) -> u64;
}

/// Any processor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Portable;

#[inline(always)]
fn each(lane: impl Fn(usize) -> u64) -> Lanes {
    [lane(0), lane(1), lane(2), lane(3)]
}

impl Simd for Portable {
    type V = Lanes;

    #[inline(always)]
    fn load(self, words: &Lanes) -> Lanes {
        *words
    }

    #[inline(always)]
    fn store(self, vector: Lanes, words: &mut Lanes) {
        *words = vector;
    }

    #[inline(always)]
    fn splat(self, word: u64) -> Lanes {
        [word; LANES]
    }

    #[inline(always)]
    fn and(self, a: Lanes, b: Lanes) -> Lanes {
        each(|lane| a[lane] & b[lane])
    }

    #[inline(always)]
    fn and_not(self, a: Lanes, b: Lanes) -> Lanes {
        each(|lane| a[lane] & !b[lane])
    }

    #[inline(always)]
    fn or(self, a: Lanes, b: Lanes) -> Lanes {
        each(|lane| a[lane] | b[lane])
    }

    #[inline(always)]
    fn xor(self, a: Lanes, b: Lanes) -> Lanes {
        each(|lane| a[lane] ^ b[lane])
    }

    #[inline(always)]
    fn add(self, a: Lanes, b: Lanes) -> Lanes {
        each(|lane| a[lane].wrapping_add(b[lane]))
    }

    #[inline(always)]
    fn sub(self, a: Lanes, b: Lanes) -> Lanes {
        each(|lane| a[lane].wrapping_sub(b[lane]))
    }

    #[inline(always)]
    fn equal(self, a: Lanes, b: Lanes) -> Lanes {
        each(|lane| 0u64.wrapping_sub(u64::from(a[lane] == b[lane])))
    }

    #[inline(always)]
    fn to_top<const BIT: i32>(self, a: Lanes) -> Lanes {
        each(|lane| a[lane] << (63 - BIT))
    }

    #[inline(always)]
    fn top_to<const BIT: i32>(self, a: Lanes) -> Lanes {
        each(|lane| a[lane] >> 63 << BIT)
    }

    #[inline(always)]
    fn select_top(self, by: Lanes, yes: Lanes, no: Lanes) -> Lanes {
        each(|lane| no[lane] ^ ((no[lane] ^ yes[lane]) & 0u64.wrapping_sub(by[lane] >> 63)))
    }

    #[inline(always)]
    fn pick(self, by: Lanes, pair: &[u64; 2]) -> Lanes {
        each(|lane| pair[(by[lane] >> 1 & 1) as usize])
    }

    #[inline(always)]
    fn zeros(self, a: Lanes) -> u64 {
        (0..LANES).map(|lane| u64::from(a[lane] == 0) << lane).sum()
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) use avx2::Avx2;

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::{Lanes, Simd};
    use std::arch::x86_64::*;

    /// A processor with AVX2.
    #[derive(Clone, Copy, Debug)]
    pub(in super::super) struct Avx2(());

    impl Avx2 {
        /// The proof, if the processor has AVX2.
        #[inline]
        pub fn detect() -> Option<Avx2> {
            std::arch::is_x86_feature_detected!("avx2").then_some(Avx2(()))
        }
    }

    /// Defines lane-wise methods of two vectors by intrinsics.
    macro_rules! lane_wise {
        ($($name:ident($a:ident, $b:ident) = $intrinsic:ident($first:ident, $second:ident);)*) => {$(
            #[inline(always)]
            fn $name(self, $a: __m256i, $b: __m256i) -> __m256i {
                // SAFETY: `self` proves that the processor has AVX2.
                unsafe { $intrinsic($first, $second) }
            }
        )*};
    }

    impl Simd for Avx2 {
        type V = __m256i;

        #[inline(always)]
        fn load(self, words: &Lanes) -> __m256i {
            // SAFETY: `self` proves that the processor has AVX2; the 32 bytes are those of `words`.
            unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
        }

        #[inline(always)]
        fn store(self, vector: __m256i, words: &mut Lanes) {
            // SAFETY: `self` proves that the processor has AVX2; the 32 bytes are those of `words`.
            unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), vector) }
        }

        #[inline(always)]
        fn splat(self, word: u64) -> __m256i {
            // SAFETY: `self` proves that the processor has AVX2.
            unsafe { _mm256_set1_epi64x(word as i64) }
        }

        lane_wise! {
            and(a, b) = _mm256_and_si256(a, b);
            and_not(a, b) = _mm256_andnot_si256(b, a);
            or(a, b) = _mm256_or_si256(a, b);
            xor(a, b) = _mm256_xor_si256(a, b);
            add(a, b) = _mm256_add_epi64(a, b);
            sub(a, b) = _mm256_sub_epi64(a, b);
            equal(a, b) = _mm256_cmpeq_epi64(a, b);
        }

        #[inline(always)]
        fn to_top<const BIT: i32>(self, a: __m256i) -> __m256i {
            // SAFETY: `self` proves that the processor has AVX2.
            unsafe { _mm256_sll_epi64(a, _mm_cvtsi32_si128(63 - BIT)) }
        }

        #[inline(always)]
        fn top_to<const BIT: i32>(self, a: __m256i) -> __m256i {
            // SAFETY: `self` proves that the processor has AVX2.
            unsafe { _mm256_sll_epi64(_mm256_srli_epi64::<63>(a), _mm_cvtsi32_si128(BIT)) }
        }

        #[inline(always)]
        fn select_top(self, by: __m256i, yes: __m256i, no: __m256i) -> __m256i {
            // SAFETY: `self` proves that the processor has AVX2.
            unsafe {
                let (yes, no) = (_mm256_castsi256_pd(yes), _mm256_castsi256_pd(no));
                _mm256_castpd_si256(_mm256_blendv_pd(no, yes, _mm256_castsi256_pd(by)))
            }
        }

        #[inline(always)]
        fn pick(self, by: __m256i, pair: &[u64; 2]) -> __m256i {
            // The words are loaded one by one: one load of both would wait until the stores of both have retired.
            let (lower, upper) = (self.splat(pair[0]), self.splat(pair[1]));
            self.select::<1>(by, upper, lower)
        }

        #[inline(always)]
        fn zeros(self, a: __m256i) -> u64 {
            // SAFETY: `self` proves that the processor has AVX2.
            unsafe {
                let zeros = _mm256_cmpeq_epi64(a, _mm256_setzero_si256());
                _mm256_movemask_pd(_mm256_castsi256_pd(zeros)) as u64
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All results for some operands.
    fn results(simd: impl Simd, a: &Lanes, b: &Lanes) -> Vec<Lanes> {
        let (x, y) = (simd.load(a), simd.load(b));
        let vectors = [
            simd.splat(a[1]),
            simd.and(x, y),
            simd.and_not(x, y),
            simd.or(x, y),
            simd.xor(x, y),
            simd.add(x, y),
            simd.sub(x, y),
            simd.equal(x, y),
            simd.select::<0>(x, x, y),
            simd.select::<1>(x, x, y),
            simd.select_top(x, y, x),
            simd.to_top::<2>(x),
            simd.top_to::<2>(x),
            simd.pick(x, &[b[0], b[2]]),
        ];
        let store = |vector| {
            let mut words = [0; LANES];
            simd.store(vector, &mut words);
            words
        };
        vectors.map(store).into_iter().chain([[simd.zeros(x), simd.zeros(y), 0, 0]]).collect()
    }

    #[test]
    fn both_ways_of_computing_agree() {
        let words = [0, 1, 2, 3, u64::MAX, 1 << 63, 0x0123_4567_89ab_cdef];
        for a in words {
            for b in words {
                let (first, second) = ([a, b, 0, a ^ b], [b, b, a, 7]);
                let portable = results(Portable, &first, &second);
                assert_eq!(portable[2], [a & !b, 0, 0, (a ^ b) & !7]);
                assert_eq!(portable[9][0], if a & 2 != 0 { a } else { b });
                assert_eq!(portable[13][0], if a & 2 != 0 { second[2] } else { second[0] });
                assert_eq!(portable[14][0] & 4, 4);
                #[cfg(target_arch = "x86_64")]
                if let Some(avx2) = Avx2::detect() {
                    assert_eq!(results(avx2, &first, &second), portable);
                }
            }
        }
    }
}
