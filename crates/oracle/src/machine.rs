//! A machine, one reference at a time.

use pagewalk_units::Kind;

/// One TLB array: each set a list of pages, most recently used first.
#[derive(Clone, Debug)]
pub struct Array {
    /// Level, 1 first.
    pub level: u8,
    /// Kinds it serves: fetch, load, store.
    pub serves: [bool; 3],
    /// log2 of the page sizes it holds.
    pub shifts: Vec<u32>,
    /// Sets.
    pub sets: u64,
    /// Ways.
    pub ways: usize,
    /// Pages held: (log2 of size, page number).
    pub held: Vec<Vec<(u32, u64)>>,
    /// Lookups.
    pub lookups: u64,
    /// Hits.
    pub hits: u64,
}

impl Array {
    /// An empty array.
    pub fn new(level: u8, serves: [bool; 3], shifts: Vec<u32>, sets: u64, ways: usize) -> Array {
        let held = vec![Vec::new(); sets as usize];
        Array { level, serves, shifts, sets, ways, held, lookups: 0, hits: 0 }
    }

    fn set(&mut self, number: u64) -> &mut Vec<(u32, u64)> {
        &mut self.held[(number % self.sets) as usize]
    }

    fn touch(&mut self, shift: u32, number: u64) -> bool {
        let set = self.set(number);
        let Some(at) = set.iter().position(|&page| page == (shift, number)) else { return false };
        let page = set.remove(at);
        set.insert(0, page);
        true
    }

    fn fill(&mut self, shift: u32, number: u64) {
        let ways = self.ways;
        let set = self.set(number);
        set.retain(|&page| page != (shift, number));
        set.insert(0, (shift, number));
        set.truncate(ways);
    }
}

/// One page-walk cache: prefixes, most recently used first in each set.
#[derive(Clone, Debug)]
pub struct Cache {
    /// log2 of the bytes that an entry maps.
    pub shift: u32,
    /// Sets.
    pub sets: u64,
    /// Ways.
    pub ways: usize,
    /// Prefixes held.
    pub held: Vec<Vec<u64>>,
    /// Lookups.
    pub lookups: u64,
    /// Hits.
    pub hits: u64,
}

impl Cache {
    /// An empty cache.
    pub fn new(shift: u32, sets: u64, ways: usize) -> Cache {
        Cache { shift, sets, ways, held: vec![Vec::new(); sets as usize], lookups: 0, hits: 0 }
    }
}

/// Counts of walks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Walks by fetches.
    pub walks_fetch: u64,
    /// Walks by data.
    pub walks_data: u64,
    /// Page-table entries read.
    pub walk_references: u64,
    /// First-level misses that a lower level served.
    pub lower_hits: u64,
}

/// TLB arrays, page-walk caches, counts.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Arrays in the order of the machine file.
    pub arrays: Vec<Array>,
    /// Levels of the page table.
    pub levels: u32,
    /// Page-walk caches.
    pub caches: Vec<Cache>,
    /// Counts.
    pub counts: Counts,
}

impl Machine {
    /// Translates one page at `address`, mapped at 2^`shift` bytes. Says whether it took a walk.
    pub fn translate(&mut self, kind: Kind, address: u64, shift: u32) -> bool {
        let served = match kind {
            Kind::Fetch => 0,
            Kind::Load => 1,
            Kind::Store | Kind::Modify => 2,
        };
        let number = address >> shift;
        let last = self.arrays.iter().map(|array| array.level).max().unwrap();
        let mut found = None;
        for level in 1..=last {
            for array in self.arrays.iter_mut().filter(|a| a.level == level && a.serves[served]) {
                array.lookups += 1;
                if array.touch(shift, number) {
                    array.hits += 1;
                    found = Some(level);
                }
            }
            if found.is_some() {
                break;
            }
        }
        match found {
            None => self.walk(kind, address, shift),
            Some(1) => {}
            Some(_) => self.counts.lower_hits += 1,
        }
        let above = found.unwrap_or(last + 1);
        for array in self.arrays.iter_mut().filter(|a| a.level < above && a.serves[served]) {
            if array.shifts.contains(&shift) {
                array.fill(shift, number);
            }
        }
        found.is_none()
    }

    fn walk(&mut self, kind: Kind, address: u64, shift: u32) {
        // Levels of the table from the root: the entry read at level i maps 2^(12 + 9 i) bytes.
        let mut entries: Vec<u32> = (0..self.levels).map(|i| 12 + 9 * i).filter(|&s| s >= shift).collect();
        for cache in &mut self.caches {
            cache.lookups += 1;
            if cache.shift <= shift {
                continue;
            }
            let prefix = address >> cache.shift;
            let set = &mut cache.held[(prefix % cache.sets) as usize];
            if let Some(at) = set.iter().position(|&held| held == prefix) {
                cache.hits += 1;
                set.remove(at);
                entries.retain(|&entry| entry < cache.shift);
            }
            set.insert(0, prefix);
            set.truncate(cache.ways);
        }
        self.counts.walk_references += entries.len() as u64;
        *(if kind == Kind::Fetch { &mut self.counts.walks_fetch } else { &mut self.counts.walks_data }) += 1;
    }

    /// Drops one page's translation.
    pub fn drop_page(&mut self, shift: u32, number: u64) {
        for array in &mut self.arrays {
            array.set(number).retain(|&page| page != (shift, number));
        }
    }

    /// Drops walk-cache entries that map some byte of `[start, end)`.
    pub fn drop_tables(&mut self, start: u64, end: u64) {
        for cache in &mut self.caches {
            for set in &mut cache.held {
                set.retain(|&prefix| {
                    let (first, last) =
                        (prefix << cache.shift, (prefix << cache.shift) + (1 << cache.shift) - 1);
                    last < start || first >= end
                });
            }
        }
    }
}
