//! Which designs of a pass are what.

/// Sets of designs: a bit each.
#[derive(Default)]
pub(crate) struct Sets {
    /// Those that still count, on the core that runs.
    pub active: u64,
    /// Those that are told of hits.
    pub mindful: u64,
    /// Those with caches of memory.
    pub with_memory: u64,
    /// Those whose TLBs hold huge pages in pieces.
    pub in_pieces: u64,
    /// Those with a kernel of their own.
    pub kernels: u64,
    /// Those with arrays that serve fetches and data.
    pub unified: u64,
    /// Those whose page tables are mapped.
    pub mapped: u64,
}

impl Sets {
    /// Whether data references may have fetches miss that follow others from the same page.
    pub fn fetches_may_miss(&self) -> bool {
        self.kernels | self.unified != 0
    }
}
