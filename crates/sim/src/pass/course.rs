//! The pass's progress through a batch.

use crate::pass::caches::CachesProgress;
use crate::pass::scout::Scout;

/// The mode of the pass and its position in the batch.
#[derive(Default)]
pub(crate) struct PassProgress {
    /// Whether loads and stores are separate classes.
    pub split: bool,
    /// Whether each fetch has its own place in the order: see `unfolded_order`.
    pub every_fetch: bool,
    /// Whether the program has hugetlb memory.
    pub hugetlb: bool,
    /// Whether all misses of the batch are plain: see `plain_misses`.
    pub plain: bool,
    /// Caches of memory.
    pub caches: CachesProgress,
    /// Pages of coming references.
    pub scout: Scout,
    /// Whether a data reference may have dropped the executing page: see `folded_order`.
    pub disturbed: bool,
    /// The span and number of the noted data reference, until the executing page is looked up there.
    pub noted: Option<(usize, usize)>,
    /// After a rollback: how many speculatively counted hits were kept.
    pub rewound: Option<usize>,
    /// Data references of the batch still to run, including the current one.
    pub left: usize,
}

/// Executed instructions so far.
#[derive(Clone, Copy, Default)]
pub(crate) struct ExecutionTotals {
    pub instructions: u64,
    /// Instructions among them that threads spent spinning.
    pub spun: u64,
    pub data_references: u64,
    pub pages_touched: u64,
}
