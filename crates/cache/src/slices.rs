//! A cache in slices, whose slice for a line a hash picks.
//!
//! Last-level caches of Intel since Sandy Bridge and of others have one slice a core. Their hash of the physical
//! address is not published for most, so ours stands for any good one: SplitMix64's finalizer (Steele, Lea, Flood,
//! "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014) of the line's number, scaled to the number of slices.
//! Plain bits above the line choose the set within the slice.

use crate::CacheSpec;
use pagewalk_setassoc::{Geometry, GeometryError};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Slices {
    count: u32,
    set_bits: u32,
}

impl Slices {
    pub fn new(spec: &CacheSpec) -> Slices {
        Slices { count: spec.slices, set_bits: spec.geometry.sets().trailing_zeros() }
    }

    /// The shape of an array for all slices. The slices beyond the last one, up to a power of two, stay empty.
    pub fn geometry(spec: &CacheSpec) -> Result<Geometry, GeometryError> {
        let entries = spec.geometry.entries() as u64 * u64::from(spec.slices.max(1).next_power_of_two());
        let entries = u32::try_from(entries).map_err(|_| GeometryError::TooLarge { entries: u32::MAX })?;
        Geometry::new(entries, Some(spec.geometry.ways() as u32))
    }

    /// The sets of a slice.
    pub fn sets(self) -> usize {
        1 << self.set_bits
    }

    /// The number whose lowest bits are a line's set among the sets of all slices.
    #[inline]
    pub fn number(self, line: u64) -> u64 {
        if self.count == 1 { line } else { self.hashed(line) }
    }

    // Not inlined: compilers would hash before they know that they must.
    #[inline(never)]
    fn hashed(self, line: u64) -> u64 {
        let set = line & ((1 << self.set_bits) - 1);
        self.slice(line) << self.set_bits | set
    }

    fn slice(self, line: u64) -> u64 {
        let mut mixed = (line ^ line >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        ((u128::from(mixed) * u128::from(self.count)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_get_equal_shares_of_any_stride() {
        for count in [2, 6, 8, 10] {
            let slices = Slices { count, set_bits: 11 };
            for stride in [1, 64, 2048, 1 << 14] {
                let mut lines = vec![0; count as usize];
                (0..9_000).for_each(|n| lines[slices.slice(n * stride) as usize] += 1);
                let fair = 9_000 / count;
                assert!(
                    lines.iter().all(|n| (fair * 9 / 10..fair * 11 / 10).contains(n)),
                    "{stride}: {lines:?}"
                );
            }
        }
    }
}
