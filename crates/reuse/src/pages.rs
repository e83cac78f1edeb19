//! Small numbers for pages: 1, 2, 3 … in order of first appearance.

use rustc_hash::FxHashMap;
use std::ops::Range;

/// log2 of the number of pages in a region.
const REGION_SHIFT: u32 = 9;
const REGION_PAGES: u64 = 1 << REGION_SHIFT;
/// Number of regions that are found without hashing.
const RECENT: usize = 64;
const NO_REGION: u64 = u64::MAX;

/// The numbers of one page size. Memory: 2 KiB for each region of 512 pages that is touched.
pub(crate) struct Pages {
    /// For each slot, a region and the index of its numbers.
    recent: [(u64, u32); RECENT],
    regions: FxHashMap<u64, u32>,
    /// The page numbers, by region and page in it; 0 for pages not seen.
    numbers: Vec<[u32; REGION_PAGES as usize]>,
    last: u32,
}

impl Pages {
    pub fn new() -> Pages {
        Pages {
            recent: [(NO_REGION, 0); RECENT],
            regions: FxHashMap::default(),
            numbers: Vec::new(),
            last: 0,
        }
    }

    /// Number of pages seen.
    pub fn len(&self) -> usize {
        self.last as usize
    }

    /// The number of a page; assigns one if the page is new.
    #[inline(always)]
    pub fn number(&mut self, page: u64) -> u32 {
        let region = page >> REGION_SHIFT;
        let (known, mut at) = self.recent[region as usize % RECENT];
        if known != region {
            at = self.region(region);
        }
        let number = self.numbers[at as usize][(page % REGION_PAGES) as usize];
        if number != 0 { number } else { self.add(at, page) }
    }

    #[cold]
    fn add(&mut self, region: u32, page: u64) -> u32 {
        self.last += 1;
        assert!(self.last < u32::MAX, "fewer than 2^32 - 1 pages");
        self.numbers[region as usize][(page % REGION_PAGES) as usize] = self.last;
        self.last
    }

    #[inline(never)]
    fn region(&mut self, region: u64) -> u32 {
        let at = *self.regions.entry(region).or_insert_with(|| {
            self.numbers.push([0; REGION_PAGES as usize]);
            self.numbers.len() as u32 - 1
        });
        self.recent[region as usize % RECENT] = (region, at);
        at
    }

    /// Calls `found` with page and number for every page of a range that was seen, in unspecified order.
    pub fn seen(&self, pages: Range<u64>, mut found: impl FnMut(u64, u32)) {
        if pages.is_empty() {
            return;
        }
        let regions = pages.start >> REGION_SHIFT..((pages.end - 1) >> REGION_SHIFT) + 1;
        let mut look = |region: u64, at: u32| {
            for (page, &number) in (region << REGION_SHIFT..).zip(&self.numbers[at as usize]) {
                if number != 0 && pages.contains(&page) {
                    found(page, number);
                }
            }
        };
        if regions.end - regions.start > self.regions.len() as u64 {
            let touched = self.regions.iter().filter(|(region, _)| regions.contains(region));
            touched.for_each(|(&region, &at)| look(region, at));
        } else {
            let touched = regions.filter_map(|region| Some((region, *self.regions.get(&region)?)));
            touched.for_each(|(region, at)| look(region, at));
        }
    }
}
