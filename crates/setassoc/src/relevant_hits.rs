//! How policies heed hits: what a simulator has to tell an array of.
//!
//! Simulators leave hits out where they change nothing. Which those are, each policy declares itself
//! ([`crate::NamedPolicy::RELEVANT_HITS`]), and simulators match on all of the answers: a policy cannot be forgotten.

/// Which hits change what a policy replaces later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RelevantHits {
    /// None: all hits may be left out.
    Nothing,
    /// Whatever they were, the time of each key's last use says the victim, so an array may keep no state of its own.
    /// A hit of the key that was used last in its set changes nothing.
    LastUse(UseOrder),
    /// Those of another key than the one used last in its set: its repetitions may be left out.
    Changes,
    /// Every one, repetitions too.
    Each,
}

/// How the victim follows from the times at which the keys of a full set were last used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UseOrder {
    /// The oldest.
    Oldest,
    /// From the root of a binary tree over the ways always into the half whose latest use is older; the lower one
    /// where neither was used.
    Tree,
    /// The ways are three such trees, one behind the other. The tree behind the one used last, around the end.
    NextOfThreeTrees,
    /// The tree of three that was not used for longest.
    OldestOfThreeTrees,
}
