//! Replacement policies by name.
//!
//! A new policy is a file of its own beside the others, which implements [`NamedPolicy`], and a line below that
//! registers it.

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

/// What a policy declares of itself.
pub trait NamedPolicy: ReplacementPolicy + Sized {
    /// The name in machine files.
    const NAME: &'static str;
    /// Which hits change what it replaces later. There is no default: simulators leave out the others.
    const RELEVANT_HITS: RelevantHits;

    /// Whether it can replace in sets of so many ways, at least one.
    ///
    /// # Errors
    /// If it cannot.
    fn serves(_ways: usize) -> Result<(), ReplacementError> {
        Ok(())
    }

    /// The state of an empty array. `seed`: where random numbers begin.
    ///
    /// # Errors
    /// If it cannot serve the ways.
    fn of(geometry: Geometry, seed: u64) -> Result<Self, ReplacementError>;
}

/// Why a policy cannot serve a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplacementError {
    /// `tree-plru` with ways that are not the leaves of a full binary tree.
    TreeWays {
        /// Ways asked for.
        ways: usize,
    },
    /// Three trees with ways that are not those of three full binary trees.
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

/// Makes of each line a choice at run time: a value of [`Replacement`], and the policy itself in [`AnyPolicy`].
macro_rules! policies {
    ($($(#[$about:meta])* $variant:ident $({ $seed:ident })? = $policy:ty),* $(,)?) => {
        /// Which key leaves a full set. Each policy's file says exactly what it does.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub enum Replacement {
            $($(#[$about])* $variant $({
                /// Where the array's own generator begins.
                $seed: u64,
            })?),*
        }

        impl Replacement {
            /// The names, as machine files have them.
            pub const NAMES: [&'static str; [$(stringify!($variant)),*].len()] =
                [$(<$policy as NamedPolicy>::NAME),*];

            /// The policy of this name. Only those that draw look at the seed.
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

            /// Which hits change what it replaces later.
            pub fn relevant_hits(self) -> RelevantHits {
                match self { $(Replacement::$variant { .. } => <$policy as NamedPolicy>::RELEVANT_HITS),* }
            }

            /// Where its random numbers begin; `None` if it draws none.
            pub fn seed(self) -> Option<u64> {
                match self {
                    $(Replacement::$variant $({ $seed })? => None::<u64> $(.or(Some($seed)))?),*
                }
            }

            /// Whether it draws random numbers, from a seed.
            pub fn draws(self) -> bool {
                self.seed().is_some()
            }

            /// Whether it can replace in sets of so many ways, at least one.
            ///
            /// # Errors
            /// If it cannot.
            pub fn serves(self, ways: usize) -> Result<(), ReplacementError> {
                match self { $(Replacement::$variant { .. } => <$policy as NamedPolicy>::serves(ways)),* }
            }
        }

        /// Any of the policies, chosen at run time.
        // The tag is a byte of its own: decoding one hidden in a vector's capacity costs every hit some instructions.
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

// One line registers a policy; its file says the rest. Those that draw random numbers carry their seed.
policies! {
    /// The least recently used.
    #[default]
    Lru = lru::Lru,
    /// The one that a tree of bits leads to; the number of ways must be a power of two.
    TreePlru = tree_plru::TreePlru,
    /// The lowest way that was not used since its set's bits were cleared.
    BitPlru = bit_plru::BitPlru,
    /// What the tree of bits behind the one used last leads to, of three; the ways must be 3 · 2^k.
    Mru3Plru = mru3_plru::Mru3Plru,
    /// What the least recently used of three trees of bits leads to; the ways must be 3 · 2^k.
    Lru3Plru = lru3_plru::Lru3Plru,
    /// The one filled longest ago.
    Fifo = fifo::Fifo,
    /// Any.
    Random { seed } = random::Random,
    /// Any but the one used last.
    NotMru { seed } = not_mru::NotMru,
    /// The oldest by two bits of age, as in the second-level cache of Skylake.
    QlruH00M1R2U1 = qlru::Qlru<0>,
    /// The same of Cannon Lake.
    QlruH00M1R0U1 = qlru::Qlru<1>,
    /// The same of the third-level cache of Haswell.
    QlruH11M1R0U0 = qlru::Qlru<2>,
    /// The same of the third-level cache of Ivy Bridge.
    QlruH11M1R1U2 = qlru::Qlru<3>,
    /// The one whose next use two bits predict to be farthest away.
    Srrip = srrip::Srrip<2>,
    /// The same by three bits.
    Srrip3 = srrip::Srrip<3>,
    /// The same by two bits that a fill sets as sets that duel do with fewer misses.
    Drrip { seed } = drrip::Drrip,
}

/// An array whose policy is chosen at run time: one predictable branch for each hit.
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
    /// An empty array whose sets are chosen by the low bits; see [`Array::indexed_by`].
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
