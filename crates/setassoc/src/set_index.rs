//! The set of a page number.
//!
//! With `modulo` the low bits choose, so pages at multiples of the number of sets conflict. Hashes xor higher bits onto
//! the low ones: power-of-two strides then spread over all sets, and neighbours still never conflict. Every index here
//! is a linear map of the number's bits that keeps the low ones in place (a triangular matrix with ones on its
//! diagonal), so each aligned run of as many pages as sets uses every set once (test `aligned_runs_use_every_set`;
//! `xor-fold` and `xor-N` permute the run).
//!
//! Sources: González, Valero, Topham, Parcerisa, "Eliminating Cache Conflict Misses through XOR-Based
//! Placement Functions", ICS 1997. Gras, Razavi, Bos, Giuffrida, "Translation Leak-aside Buffer", USENIX
//! Security 2018, found `xor-7` in the second-level TLB of Skylake (128 sets of 12 ways) and `xor-8` in
//! Broadwell's (256 sets of 6 ways), and low bits in the first levels.

use crate::Geometry;
use std::fmt;

/// How a page number chooses its set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SetIndex {
    /// The low bits of the number.
    #[default]
    Modulo,
    /// The xor of all pieces of the number, each as wide as the set index.
    XorFold,
    /// Bits `[N, 2N)` of the number xored onto bits `[0, N)`; the low bits of the result are the set. Hardware has 2^N
    /// sets.
    Xor(XorBits),
}

/// The N of `xor-N`: from 1 to 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct XorBits(u8);

impl XorBits {
    /// `bits`, if from 1 to 32.
    pub fn new(bits: u32) -> Option<XorBits> {
        u8::try_from(bits).ok().filter(|bits| (1..=32).contains(bits)).map(XorBits)
    }

    /// The number, from 1 to 32.
    pub fn get(self) -> u32 {
        self.0.into()
    }
}

impl SetIndex {
    /// The names for messages.
    pub const NAMES: [&str; 3] = ["modulo", "xor-fold", "xor-N"];

    /// The index of this name: `modulo`, `xor-fold`, or `xor-` and a number from 1 to 32 without leading
    /// zeros.
    pub fn from_name(name: &str) -> Option<SetIndex> {
        let index = match name {
            "modulo" => SetIndex::Modulo,
            "xor-fold" => SetIndex::XorFold,
            _ => SetIndex::Xor(XorBits::new(name.strip_prefix("xor-")?.parse().ok()?)?),
        };
        (index.to_string() == name).then_some(index)
    }

    /// The set of `number` in an array of this shape.
    #[inline(always)]
    pub fn set_of(self, geometry: Geometry, number: u64) -> usize {
        geometry.set_of(match self {
            SetIndex::Modulo => number,
            SetIndex::XorFold => folded(number, geometry.sets().trailing_zeros()),
            SetIndex::Xor(bits) => number ^ (number >> bits.get() & ((1 << bits.get()) - 1)),
        })
    }
}

/// The xor of all pieces of `bits` bits; bits above the lowest piece are garbage. Not inlined: the loop would slow
/// arrays that do not use it.
#[inline(never)]
fn folded(number: u64, bits: u32) -> u64 {
    let (mut folded, mut rest) = (number, number);
    while bits > 0 && rest > 0 {
        rest >>= bits;
        folded ^= rest;
    }
    folded
}

/// The name that [`SetIndex::from_name`] reads.
impl fmt::Display for SetIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetIndex::Modulo => f.write_str("modulo"),
            SetIndex::XorFold => f.write_str("xor-fold"),
            SetIndex::Xor(bits) => write!(f, "xor-{}", bits.get()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(name: &str) -> SetIndex {
        SetIndex::from_name(name).unwrap()
    }

    #[test]
    fn names_read_back() {
        for name in ["modulo", "xor-fold", "xor-1", "xor-7", "xor-32"] {
            assert_eq!(index(name).to_string(), name);
        }
        for name in ["", "xor", "xor-", "xor-0", "xor-33", "xor-07", "xor-+7", "xor-N", "Modulo"] {
            assert_eq!(SetIndex::from_name(name), None, "{name}");
        }
    }

    /// Skylake's second level: 128 sets; two pages conflict if the xor of bits 0–6 and 7–13 is equal.
    #[test]
    fn gras_2018_skylake_second_level() {
        let skylake = Geometry::new(1536, Some(12)).unwrap();
        let set = |number| index("xor-7").set_of(skylake, number);
        assert_eq!(set(0b0000001_0000001), 0);
        assert_eq!(set(0b1010101_0001111), 0b1011010);
        assert_eq!(set(1 << 14), 0, "bits from 14 on do not matter");
    }

    #[test]
    fn folding_uses_every_bit() {
        let geometry = Geometry::new(16, Some(1)).unwrap();
        assert_eq!(index("xor-fold").set_of(geometry, 0x8421_0000_0000_000f), 0);
        for bit in 0..64 {
            assert_eq!(index("xor-fold").set_of(geometry, 1 << bit), 1 << (bit % 4));
        }
        assert_eq!(index("xor-fold").set_of(Geometry::new(8, None).unwrap(), u64::MAX), 0);
    }

    #[test]
    fn aligned_runs_use_every_set() {
        for sets in [1, 2, 8, 128, 4096] {
            let geometry = Geometry::new(sets, Some(1)).unwrap();
            for name in ["modulo", "xor-fold", "xor-2", "xor-7", "xor-12", "xor-32"] {
                let start = 0x1234_5678_9abc_d000 & !(u64::from(sets) - 1);
                let run = start..start + u64::from(sets);
                let mut used: Vec<usize> = run.map(|number| index(name).set_of(geometry, number)).collect();
                used.sort_unstable();
                assert!(used.into_iter().eq(0..sets as usize), "{name} of {sets} sets");
            }
        }
    }
}
