//! Reference models of reuse analysis: LRU arrays simulated one by one, and stack distances counted from the history.

use std::collections::HashSet;
use std::ops::Range;

/// One LRU array for one page size.
#[derive(Clone, Debug)]
pub struct LruSets {
    page_shift: u32,
    ways: usize,
    /// The page numbers of each set, most recently used first.
    sets: Vec<Vec<u64>>,
    /// Number of misses.
    pub misses: u64,
}

impl LruSets {
    /// An empty array of `sets` times `ways` pages of 2^`page_shift` bytes.
    pub fn new(page_shift: u32, sets: usize, ways: usize) -> LruSets {
        LruSets { page_shift, ways, sets: vec![Vec::new(); sets], misses: 0 }
    }

    /// The page that contains a 4 KiB page.
    fn page(&self, vpn: u64) -> u64 {
        vpn * 4096 / (1 << self.page_shift)
    }

    /// References a 4 KiB page.
    pub fn refer(&mut self, vpn: u64) {
        let page = self.page(vpn);
        let index = page as usize % self.sets.len();
        let set = &mut self.sets[index];
        if set.contains(&page) {
            set.retain(|&held| held != page);
        } else {
            self.misses += 1;
            if set.len() == self.ways {
                set.pop();
            }
        }
        set.insert(0, page);
    }

    /// Invalidates 4 KiB pages: removes every page that contains one of them.
    pub fn remove(&mut self, vpns: Range<u64>) {
        let pages: Vec<u64> = self.sets.iter().flatten().copied().collect();
        for page in pages {
            let first = page * (1 << self.page_shift) / 4096;
            let last = first + (1 << self.page_shift) / 4096 - 1;
            if vpns.start <= last && first < vpns.end {
                self.sets.iter_mut().for_each(|set| set.retain(|&held| held != page));
            }
        }
    }
}

/// The history of all references.
#[derive(Clone, Debug, Default)]
pub struct History(Vec<u64>);

impl History {
    /// References a page. Returns the number of other pages referenced since its last reference; `None` if it is the
    /// first.
    pub fn refer(&mut self, vpn: u64) -> Option<usize> {
        let last = self.0.iter().rposition(|&past| past == vpn);
        let distance = last.map(|at| self.0[at + 1..].iter().collect::<HashSet<_>>().len());
        self.0.push(vpn);
        distance
    }
}
