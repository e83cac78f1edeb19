//! The pages that missed lately, by low bits of their number: most misses find theirs here, and not by a hash.

/// Pages that it has room for, a power of two: 16 KiB.
const PAGES: usize = 4096;
/// No page.
pub(crate) const NOBODY: u32 = u32::MAX;

/// Ids of pages of the running address space.
pub(crate) struct RecentPages(Box<[u32; PAGES]>);

impl RecentPages {
    pub fn new() -> RecentPages {
        RecentPages(Box::new([NOBODY; PAGES]))
    }

    /// The page that may have this number, or [`NOBODY`].
    #[inline(always)]
    pub fn candidate(&self, vpn: u64) -> u32 {
        self.0[vpn as usize % PAGES]
    }

    /// Makes `page` the candidate.
    #[inline(always)]
    pub fn set(&mut self, vpn: u64, page: u32) {
        self.0[vpn as usize % PAGES] = page;
    }

    /// Forgets all pages.
    pub fn clear(&mut self) {
        self.0.fill(NOBODY);
    }
}
