//! The page being executed.

/// The executing page at a data reference.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ExecutingPage {
    pub vpn: u64,
    /// The row's remaining fetches from it.
    pub fetches: u64,
    /// The reference's span of the batch, and its instruction.
    pub span: usize,
    pub instruction: u16,
    /// A fetch began the row, and the row's next fetch is still to be looked up.
    pub open: bool,
}
