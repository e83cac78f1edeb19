//! Relevant hits: those that a simulator must pass to an array.
//!
//! Simulators leave out hits that change nothing. Each policy declares which hits it needs
//! ([`crate::NamedPolicy::RELEVANT_HITS`]), and simulators match on all answers, so no policy can be forgotten.

/// The hits that change a policy's later victims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RelevantHits {
    /// None.
    Nothing,
    /// The times of last use determine the victim, so an array needs no state of its own. Repeating the last key of a
    /// set changes nothing.
    LastUse(UseOrder),
    /// All hits except repetitions of the last key of a set.
    Changes,
    /// All hits, including repetitions.
    Each,
}

/// How the times of last use in a full set determine the victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UseOrder {
    /// The oldest.
    Oldest,
    /// The leaf of a binary tree over the ways, found from the root by taking the half whose latest use is older; the
    /// lower half if neither was used.
    Tree,
    /// The ways form three such trees. The tree after the one used last, cyclically, gives the victim.
    NextOfThreeTrees,
    /// The ways form three such trees. The least recently used tree gives the victim.
    OldestOfThreeTrees,
}
