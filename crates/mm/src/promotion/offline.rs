//! OFFLINE's settings: how superpages are chosen with knowledge of the future (Romer 1998, section 3.4.1).
//!
//! Choosing takes replays of the stream, so it is no policy of a kernel; [`ChosenSuperpages`](super::Given) is, with
//! what was chosen.

use crate::KernelCosts;

/// What a block that holds chosen superpages is taken to cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// What it costs more than those do: they are not built when it is.
    Difference,
    /// Its full price, as though those had been built too.
    Full,
}

/// How many blocks are chosen after a replay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ChoicesPerReplay {
    /// The best one.
    One,
    /// The best one, then the best one of those that are left, and so on, down to this share of the first one's misses
    /// for a cycle, from 0 to 1: with 0, all that pay. What those chosen before prevent is no reason to choose another,
    /// as far as a sample of the misses tells; blocks that overlap them wait for the next replay, and may then be built
    /// in their place.
    Share(f64),
}

/// How the superpages are chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct OfflineSettings {
    /// Orders of superpages: a bit each. `None`: all sizes that TLBs of the machine hold for all kinds of references.
    pub orders: Option<u32>,
    /// Cycles of a TLB miss: 30 in the source.
    pub miss_cycles: u64,
    /// What the kernel's work costs: [`KernelCosts::ROMER`]. Blocks are chosen by its `copy_per_kib`.
    pub costs: KernelCosts,
    /// How many at a time.
    pub take: ChoicesPerReplay,
    /// What growing costs.
    pub growth: Growth,
    /// Replays after which no more blocks are chosen; one more counts what the last choice gives.
    pub replays: usize,
}

impl Default for OfflineSettings {
    /// The source's prices; the gaps filled so as to come near the results of one block at a time in few replays.
    fn default() -> OfflineSettings {
        OfflineSettings {
            orders: None,
            miss_cycles: 30,
            costs: KernelCosts::ROMER,
            take: ChoicesPerReplay::Share(0.0),
            growth: Growth::Difference,
            replays: 1000,
        }
    }
}
