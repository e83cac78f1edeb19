//! The log of one cache's accesses.

use crate::Requester;

/// An access to the watched cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineAccess {
    /// Whose it is.
    pub requester: Requester,
    /// The physical address of the line's first byte.
    pub address: u64,
    /// Whether the cache held the line.
    pub hit: bool,
}

/// Accesses of the watched cache, until they are taken.
#[derive(Clone, Debug, Default)]
pub(crate) struct AccessLog {
    /// The cache whose misses are logged.
    pub watched: Option<usize>,
    /// Whether its hits are, too.
    pub hits: bool,
    pub accesses: Vec<LineAccess>,
}

impl AccessLog {
    /// Whether an access to a cache is to be logged.
    #[inline]
    pub fn takes(&self, index: usize, hit: bool) -> bool {
        self.watched == Some(index) && (!hit || self.hits)
    }
}
