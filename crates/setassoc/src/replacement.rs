//! Replacement policies by name.
//!
//! To add a policy, add a file that implements [`NamedPolicy`], and a line below that registers it.

mod bit_plru;
mod drrip;
mod fifo;
mod lru;
mod lru3_plru;
mod mru3_plru;
mod not_mru;
mod qlru;
mod random;
mod srrip;
mod three_trees;
mod tree_plru;

pub use lru::LruArray;

use crate::{Array, Geometry, RelevantHits, ReplacementPolicy};
use std::fmt;

/// A policy with a name in machine files.
pub trait NamedPolicy: ReplacementPolicy + Sized {
    /// The name in machine files.
    const NAME: &'static str;
    /// The hits that change later victims. There is no default, because simulators leave out the others.
    const RELEVANT_HITS: RelevantHits;

    /// Checks that it can serve sets of `ways` (at least one).
    ///
    /// # Errors
    /// If it cannot.
    fn serves(_ways: usize) -> Result<(), ReplacementError> {
        Ok(())
    }

    /// The state of an empty array. `seed`: for random numbers.
    ///
    /// # Errors
    /// If it cannot serve the ways.
    fn of(geometry: Geometry, seed: u64) -> Result<Self, ReplacementError>;
}

/// Why a policy cannot serve a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplacementError {
    /// `tree-plru` with a number of ways that is no power of two.
    TreeWays {
        /// Ways asked for.
        ways: usize,
    },
    /// Three trees with a number of ways that is not 3 · 2^k.
    ThreeTrees {
        /// The policy.
        policy: &'static str,
        /// Ways asked for.
        ways: usize,
    },
}

impl fmt::Display for ReplacementError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplacementError::TreeWays { ways } => {
                write!(f, "tree-plru needs a power-of-two number of ways, not {ways}")
            }
            ReplacementError::ThreeTrees { policy, ways } => {
                write!(f, "{policy} needs 3, 6, 12, 24 or 3 · 2^k ways, not {ways}")
            }
        }
    }
}

impl std::error::Error for ReplacementError {}

/// Makes a run-time choice of each line: a value of [`Replacement`], and the policy in [`AnyPolicy`].
macro_rules! policies {
    ($($(#[$about:meta])* $variant:ident $({ $seed:ident })? = $policy:ty),* $(,)?) => {
        /// A replacement policy. Each policy's file defines it exactly.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub enum Replacement {
            $($(#[$about])* $variant $({
                /// The seed of the array's own generator.
                $seed: u64,
            })?),*
        }

        impl Replacement {
            /// The names in machine files.
            pub const NAMES: [&'static str; [$(stringify!($variant)),*].len()] =
                [$(<$policy as NamedPolicy>::NAME),*];

            /// The policy of this name. Only random policies use the seed.
            pub fn from_name(name: &str, seed: u64) -> Option<Replacement> {
                $(if name == <$policy as NamedPolicy>::NAME {
                    return Some(Replacement::$variant $({ $seed: seed })?);
                })*
                None
            }

            /// One of [`Replacement::NAMES`].
            pub fn name(self) -> &'static str {
                match self { $(Replacement::$variant { .. } => <$policy as NamedPolicy>::NAME),* }
            }

            /// The hits that it needs.
            pub fn relevant_hits(self) -> RelevantHits {
                match self { $(Replacement::$variant { .. } => <$policy as NamedPolicy>::RELEVANT_HITS),* }
            }

            /// Its seed; `None` if it is not random.
            pub fn seed(self) -> Option<u64> {
                match self {
                    $(Replacement::$variant $({ $seed })? => None::<u64> $(.or(Some($seed)))?),*
                }
            }

            /// Whether it is random.
            pub fn draws(self) -> bool {
                self.seed().is_some()
            }

            /// Checks that it can serve sets of `ways` (at least one).
            ///
            /// # Errors
            /// If it cannot.
            pub fn serves(self, ways: usize) -> Result<(), ReplacementError> {
                match self { $(Replacement::$variant { .. } => <$policy as NamedPolicy>::serves(ways)),* }
            }
        }

        /// Any of the policies, chosen at run time.
        // The tag is a separate byte: decoding one from a vector's capacity costs every hit some instructions.
        #[derive(Clone, Debug)]
        #[repr(u8)]
        pub enum AnyPolicy {
            $(
                #[doc = concat!("[`Replacement::", stringify!($variant), "`].")]
                $variant($policy)
            ),*
        }

        impl AnyPolicy {
            fn of(geometry: Geometry, replacement: Replacement) -> Result<AnyPolicy, ReplacementError> {
                Ok(match replacement {
                    $(Replacement::$variant $({ $seed })? => {
                        AnyPolicy::$variant(<$policy as NamedPolicy>::of(geometry, 0 $(+ $seed)?)?)
                    }),*
                })
            }
        }

        impl ReplacementPolicy for AnyPolicy {
            #[inline(always)]
            fn hit(&mut self, set: usize, way: usize) {
                match self { $(AnyPolicy::$variant(policy) => policy.hit(set, way)),* }
            }

            #[inline]
            fn victim(&mut self, set: usize) -> usize {
                match self { $(AnyPolicy::$variant(policy) => policy.victim(set)),* }
            }

            #[inline]
            fn fill(&mut self, set: usize, way: usize) {
                match self { $(AnyPolicy::$variant(policy) => policy.fill(set, way)),* }
            }

            fn remove(&mut self, set: usize, way: usize) {
                match self { $(AnyPolicy::$variant(policy) => policy.remove(set, way)),* }
            }
        }
    };
}

// One line registers a policy. Random policies carry their seed.
policies! {
    /// The least recently used key.
    #[default]
    Lru = lru::Lru,
    /// The key that a tree of bits points to; the number of ways must be a power of two.
    TreePlru = tree_plru::TreePlru,
    /// The lowest way not used since its set's bits were cleared.
    BitPlru = bit_plru::BitPlru,
    /// The key that the tree after the last used one of three points to; the ways must be 3 · 2^k.
    Mru3Plru = mru3_plru::Mru3Plru,
    /// The key that the least recently used of three trees points to; the ways must be 3 · 2^k.
    Lru3Plru = lru3_plru::Lru3Plru,
    /// The key filled longest ago.
    Fifo = fifo::Fifo,
    /// A random key.
    Random { seed } = random::Random,
    /// A random key other than the one used last.
    NotMru { seed } = not_mru::NotMru,
    /// The oldest key by two bits of age, as in Skylake's second-level cache.
    QlruH00M1R2U1 = qlru::Qlru<0>,
    /// Two bits of age, as in Cannon Lake's second-level cache.
    QlruH00M1R0U1 = qlru::Qlru<1>,
    /// Two bits of age, as in Haswell's third-level cache.
    QlruH11M1R0U0 = qlru::Qlru<2>,
    /// Two bits of age, as in Ivy Bridge's third-level cache.
    QlruH11M1R1U2 = qlru::Qlru<3>,
    /// The key whose next use two bits predict to be farthest away.
    Srrip = srrip::Srrip<2>,
    /// SRRIP with three bits.
    Srrip3 = srrip::Srrip<3>,
    /// RRIP with two bits, whose fills follow the policy that wins a set duel.
    Drrip { seed } = drrip::Drrip,
}

/// An array with a policy chosen at run time, for one predictable branch per hit.
///
/// ```
/// use pagewalk_setassoc::{Geometry, Replacement, SetArray, SetIndex};
///
/// let geometry = Geometry::new(1536, Some(12))?;
/// let hash = SetIndex::from_name("xor-7").expect("a name");
/// let mut array = SetArray::new(geometry, Replacement::Fifo)?.indexed_by(hash);
/// assert!(!array.touch(5, 5));
/// assert_eq!(array.fill(5, 5), None);
/// assert!(array.touch(5, 5));
///
/// let error = SetArray::new(geometry, Replacement::TreePlru).unwrap_err();
/// assert_eq!(error.to_string(), "tree-plru needs a power-of-two number of ways, not 12");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type SetArray = Array<AnyPolicy>;

impl SetArray {
    /// An empty array indexed by low bits; see [`Array::indexed_by`].
    ///
    /// # Errors
    /// If the policy cannot serve the shape.
    pub fn new(geometry: Geometry, replacement: Replacement) -> Result<SetArray, ReplacementError> {
        Ok(Array::with_policy(geometry, AnyPolicy::of(geometry, replacement)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for name in Replacement::NAMES {
            assert_eq!(Replacement::from_name(name, 7).unwrap().name(), name);
        }
        assert_eq!(Replacement::from_name("random", 7), Some(Replacement::Random { seed: 7 }));
        assert_eq!(Replacement::Random { seed: 7 }.seed(), Some(7));
        assert_eq!(Replacement::Lru.seed(), None);
        assert_eq!(Replacement::from_name("LRU", 0), None);
    }

    #[test]
    fn what_cannot_serve_a_shape_says_so_before() {
        for name in Replacement::NAMES {
            let replacement = Replacement::from_name(name, 7).unwrap();
            for ways in 1..=64 {
                let array = SetArray::new(Geometry::new(ways, None).unwrap(), replacement);
                assert_eq!(array.map(drop), replacement.serves(ways as usize), "{name}, {ways} ways");
            }
        }
    }
}
