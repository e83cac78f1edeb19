//! Reference models of page tables, as lists of the entries that a walk reads.

use crate::ReplacementModel;

/// A page table.
#[derive(Clone, Debug)]
pub enum Table {
    /// A radix tree.
    Radix {
        /// log2 of the bytes of a base page.
        base: u32,
        /// Number of address bits per level.
        bits: u32,
        /// Number of levels.
        levels: u32,
    },
    /// A hash table with chains of buckets.
    Hashed(Hashed),
    /// A table with one entry per page, loaded by a handler.
    Software,
}

impl Table {
    /// The entries read by a walk to the page's entry: for each, log2 of the bytes that it maps, deepest first. `key`
    /// identifies the page across all address spaces.
    pub fn reads(&mut self, address: u64, shift: u32, key: u64) -> Vec<u32> {
        match self {
            Table::Radix { base, bits, levels } => {
                let level_shifts = (0..*levels).map(|level| *base + *bits * level);
                level_shifts.filter(|&level| level >= shift).collect()
            }
            Table::Hashed(table) => vec![shift; table.buckets_to(address >> shift, key)],
            Table::Software => vec![shift],
        }
    }

    /// Removes the entry of a page.
    pub fn drop_page(&mut self, key: u64) {
        if let Table::Hashed(table) = self {
            for entry in table.chains.iter_mut().flatten().flatten() {
                if *entry == Some(key) {
                    *entry = None;
                }
            }
        }
    }
}

/// For each entry, the key of its page; `None` if free.
type Bucket = Vec<Option<u64>>;

/// A hashed page table.
#[derive(Clone, Debug)]
pub struct Hashed {
    /// Computes hash values: the set index chooses the chain.
    hash: ReplacementModel,
    /// Number of entries per bucket.
    per_bucket: usize,
    /// The chain of buckets of each hash value.
    chains: Vec<Vec<Bucket>>,
}

impl Hashed {
    /// An empty table. `index` is a name from machine files.
    pub fn new(buckets: usize, per_bucket: usize, index: &str) -> Hashed {
        let hash = ReplacementModel::new(buckets, 1, "lru", 0, index);
        Hashed { hash, per_bucket, chains: vec![Vec::new(); buckets] }
    }

    /// The number of buckets read up to the one that holds the page. If none does, the page is inserted into the first
    /// free entry.
    fn buckets_to(&mut self, number: u64, key: u64) -> usize {
        let chain = &mut self.chains[self.hash.set_of(number)];
        let page = Some(key);
        if let Some(bucket) = chain.iter().position(|bucket| bucket.contains(&page)) {
            return bucket + 1;
        }
        for (at, bucket) in chain.iter_mut().enumerate() {
            if let Some(free) = bucket.iter_mut().find(|entry| entry.is_none()) {
                *free = page;
                return at + 1;
            }
        }
        let mut bucket = vec![None; self.per_bucket];
        bucket[0] = page;
        chain.push(bucket);
        chain.len()
    }
}
