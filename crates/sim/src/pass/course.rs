//! How the pass goes through a batch, and how far it has come.

/// How references are taken, and where that stands.
#[derive(Default)]
pub(crate) struct PassProgress {
    /// Whether loads and stores are classes of their own.
    pub split: bool,
    /// Whether each fetch has a place of its own in the order: see [`crate::pass::expand`].
    pub every_fetch: bool,
    /// Whether the program has memory of hugetlb.
    pub hugetlb: bool,
    /// Whether all misses of the batch are plain ones: see [`crate::pass::plain`].
    pub plain: bool,
    /// Whether a data reference may have dropped what is being fetched from: see [`crate::pass::folded`].
    pub disturbed: bool,
    /// Where it stands, while what is executed there has not been looked up: its span of the batch, and its number.
    pub noted: Option<(usize, usize)>,
    /// If data references that were taken ahead have been given back, how many were not.
    pub rewound: Option<usize>,
    /// Data references of the batch that are still to be made, and the one that is being made.
    pub left: usize,
}

/// What has been executed so far.
#[derive(Clone, Copy, Default)]
pub(crate) struct ExecutionTotals {
    pub instructions: u64,
    /// Of those, how many were a thread waiting by spinning.
    pub spun: u64,
    pub data_references: u64,
    pub pages_touched: u64,
}
