//! Sets and ways.

use std::fmt;

/// The shape of an array: a power-of-two number of sets, each of some ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Geometry {
    sets: u32,
    ways: u32,
}

/// Why entries and ways form no array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GeometryError {
    /// No entries or no ways.
    Empty,
    /// Entries are not a multiple of the ways.
    Indivisible {
        /// Entries asked for.
        entries: u32,
        /// Ways asked for.
        ways: u32,
    },
    /// The number of sets is not a power of two.
    Sets {
        /// The number of sets that results.
        sets: u32,
    },
    /// More entries than supported.
    TooLarge {
        /// Entries asked for.
        entries: u32,
    },
}

impl fmt::Display for GeometryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GeometryError::Empty => write!(f, "entries and ways must be at least 1"),
            GeometryError::Indivisible { entries, ways } => {
                write!(f, "{entries} entries do not divide into sets of {ways} ways")
            }
            GeometryError::Sets { sets } => {
                write!(f, "{sets} sets: the number of sets (entries / ways) must be a power of two")
            }
            GeometryError::TooLarge { entries } => {
                write!(f, "{entries} entries: at most {} are supported", Geometry::ENTRIES_MAX)
            }
        }
    }
}

impl std::error::Error for GeometryError {}

/// Such as `16 entries, 4 ways`.
impl fmt::Display for Geometry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.sets, self.ways) {
            (1, ways) => write!(f, "{ways} entries, fully associative"),
            (_, ways) => write!(f, "{} entries, {ways} ways", self.entries()),
        }
    }
}

impl Geometry {
    /// The largest array: 16 Mi entries, far beyond any TLB, so that a typo cannot exhaust memory.
    pub const ENTRIES_MAX: u32 = 1 << 24;

    /// The geometry of `entries` in sets of `ways`; `None` means fully associative (one set).
    pub fn new(entries: u32, ways: Option<u32>) -> Result<Geometry, GeometryError> {
        let ways = ways.unwrap_or(entries);
        if entries == 0 || ways == 0 {
            return Err(GeometryError::Empty);
        }
        if entries > Geometry::ENTRIES_MAX {
            return Err(GeometryError::TooLarge { entries });
        }
        if !entries.is_multiple_of(ways) {
            return Err(GeometryError::Indivisible { entries, ways });
        }
        let sets = entries / ways;
        if !sets.is_power_of_two() {
            return Err(GeometryError::Sets { sets });
        }
        Ok(Geometry { sets, ways })
    }

    /// Number of sets.
    pub fn sets(self) -> usize {
        self.sets as usize
    }

    /// Entries per set.
    pub fn ways(self) -> usize {
        self.ways as usize
    }

    /// All entries.
    pub fn entries(self) -> usize {
        self.sets() * self.ways()
    }

    /// The set of `number`: its low bits.
    #[inline(always)]
    pub fn set_of(self, number: u64) -> usize {
        (number & u64::from(self.sets - 1)) as usize
    }

    /// The geometry with as many sets of twice the ways, if that many entries are supported.
    pub fn widened(self) -> Option<Geometry> {
        let ways = self.ways.checked_mul(2)?;
        Geometry::new(self.sets.checked_mul(ways)?, Some(ways)).ok()
    }

    /// The geometry with `2^doublings` times the entries: more sets, or more ways if there is one set. Negative values
    /// halve, down to one set, or one way if fully associative.
    pub fn scaled(self, doublings: i32) -> Geometry {
        let scale = |n: u32| {
            let scaled = if doublings >= 0 { u64::from(n) << doublings } else { u64::from(n) >> -doublings };
            u32::try_from(scaled.clamp(1, u64::from(Geometry::ENTRIES_MAX))).expect("clamped")
        };
        if self.sets == 1 {
            Geometry { sets: 1, ways: scale(self.ways) }
        } else {
            Geometry { sets: scale(self.sets), ways: self.ways }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_shapes_are_named() {
        assert_eq!(Geometry::new(0, None), Err(GeometryError::Empty));
        assert_eq!(Geometry::new(10, Some(4)), Err(GeometryError::Indivisible { entries: 10, ways: 4 }));
        assert_eq!(Geometry::new(12, Some(4)), Err(GeometryError::Sets { sets: 3 }));
        assert!(Geometry::new(u32::MAX, None).is_err());
    }

    #[test]
    fn doubling_adds_sets_or_ways() {
        let banked = Geometry::new(64, Some(4)).unwrap();
        assert_eq!(banked.scaled(1), Geometry::new(128, Some(4)).unwrap());
        assert_eq!(banked.scaled(-9), Geometry::new(4, Some(4)).unwrap());
        let full = Geometry::new(16, None).unwrap();
        assert_eq!(full.scaled(1), Geometry::new(32, None).unwrap());
    }
}
