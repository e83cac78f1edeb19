//! Sets of designs with a property.

/// Sets of designs, one bit each.
#[derive(Default)]
pub(crate) struct Sets {
    /// Designs of the running core whose TLBs are simulated: neither stopped nor twins.
    pub active: u64,
    /// Designs that need hits.
    pub mindful: u64,
    /// Designs whose caches of memory are in step with the TLBs.
    pub in_step: u64,
    /// Designs that have their whole caches of memory for themselves.
    pub whole_caches: u64,
    /// Designs whose walks wait for their caches.
    pub deferring: u64,
    /// Designs that differ from the observed one in their caches alone. It translates for them: its walks are theirs.
    pub twins: u64,
    /// Designs whose TLBs hold huge pages in pieces.
    pub in_pieces: u64,
    /// Designs with their own kernel.
    pub kernels: u64,
    /// Those whose kernel may swap pages out.
    pub swapping: u64,
    /// Designs with arrays that serve fetches and data.
    pub unified: u64,
    /// Designs with mapped page tables.
    pub mapped: u64,
}

impl Sets {
    /// Whether data references can make repeated fetches from one page miss.
    pub fn fetches_may_miss(&self) -> bool {
        self.kernels | self.unified != 0
    }
}
