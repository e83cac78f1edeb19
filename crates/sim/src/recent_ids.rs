//! The ids of what was looked up lately, by low bits of a number: most lookups find theirs here, and not by a hash.

/// No id.
pub(crate) const NOBODY: u32 = u32::MAX;

/// Room for so many ids, a power of two.
#[derive(Clone, Debug)]
pub(crate) struct RecentIds<const LEN: usize>(Box<[u32; LEN]>);

impl<const LEN: usize> Default for RecentIds<LEN> {
    fn default() -> RecentIds<LEN> {
        RecentIds(Box::new([NOBODY; LEN]))
    }
}

impl<const LEN: usize> RecentIds<LEN> {
    /// The id that may have this number, or [`NOBODY`].
    #[inline(always)]
    pub fn candidate(&self, number: u64) -> u32 {
        self.0[number as usize % LEN]
    }

    /// Makes `id` the candidate.
    #[inline(always)]
    pub fn set(&mut self, number: u64, id: u32) {
        self.0[number as usize % LEN] = id;
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.0.fill(NOBODY);
    }
}
