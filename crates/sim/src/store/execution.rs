//! What is being executed.

/// The page that is being executed at a data reference.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ExecutingPage {
    pub vpn: u64,
    /// Fetches from it that follow in the row.
    pub fetches: u64,
    /// The reference's span of the batch, and its instruction.
    pub span: usize,
    pub instruction: u16,
    /// A fetch has begun the row, and the next one of it is still to be looked up.
    pub open: bool,
}
