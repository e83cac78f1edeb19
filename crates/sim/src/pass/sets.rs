//! Sets of designs with a property.

/// Sets of designs, one bit each.
#[derive(Default)]
pub(crate) struct Sets {
    /// Designs of the running core that still count.
    pub active: u64,
    /// Designs that need hits.
    pub mindful: u64,
    /// Designs with caches of memory.
    pub with_memory: u64,
    /// Designs whose TLBs hold huge pages in pieces.
    pub in_pieces: u64,
    /// Designs with their own kernel.
    pub kernels: u64,
    /// Designs with arrays that serve fetches and data.
    pub unified: u64,
    /// Designs with mapped page tables.
    pub mapped: u64,
    /// Designs whose first level of caches others share, with those others.
    pub fed: Vec<(usize, u64)>,
}

impl Sets {
    /// Whether data references can make repeated fetches from one page miss.
    pub fn fetches_may_miss(&self) -> bool {
        self.kernels | self.unified != 0
    }

    /// Lets a design have the first level of caches for another one.
    pub fn feed(&mut self, from: usize, other: u64) {
        match self.fed.iter_mut().find(|(first, _)| *first == from) {
            Some((_, others)) => *others |= other,
            None => self.fed.push((from, other)),
        }
    }

    /// Designs whose caches of memory work: for active designs.
    pub fn caching(&self) -> u64 {
        let feeds = self.fed.iter().filter(|(_, others)| others & self.active != 0);
        self.with_memory & feeds.fold(self.active, |all, (first, _)| all | 1 << first)
    }
}
