//! Settings of OFFLINE, which chooses superpages with knowledge of the future (Romer 1998, section 3.4.1).
//!
//! Choosing takes replays of the stream, so it is no policy of a kernel.
//! [`ChosenSuperpages`](super::ChosenSuperpages) is the policy that applies a choice.

use crate::KernelCosts;

/// The cost of a block that holds chosen superpages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// Its price minus theirs, because it is built in their place.
    Difference,
    /// Its full price, as if they were built too.
    Full,
}

/// The number of blocks to choose after a replay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ChoicesPerReplay {
    /// The best one.
    One,
    /// The best ones in turn, down to this share (0 to 1) of the first one's misses per cycle; with 0, all that pay.
    /// Misses that earlier choices prevent do not count, by a sample of the misses; blocks that overlap a choice wait
    /// for the next replay, and may then replace it.
    Share(f64),
}

/// Settings of the choice.
#[derive(Clone, Debug, PartialEq)]
pub struct OfflineSettings {
    /// Orders of superpages, one bit each. `None`: all sizes that the machine's TLBs hold for all kinds of references.
    pub orders: Option<u32>,
    /// Cycles of a TLB miss: 30 in the source.
    pub miss_cycles: u64,
    /// Prices of the kernel's work: [`KernelCosts::ROMER`]. The choice uses `copy_per_kib`.
    pub costs: KernelCosts,
    /// Choices per replay.
    pub take: ChoicesPerReplay,
    /// The cost of growth.
    pub growth: Growth,
    /// Most replays with a choice; one more counts the result.
    pub replays: usize,
}

impl Default for OfflineSettings {
    /// The source's prices; the other settings come near the results of one block at a time in few replays.
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
