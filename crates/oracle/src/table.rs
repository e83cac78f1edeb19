//! Page tables, as lists of what a walk reads.

use crate::ReplacementModel;

/// What a walk goes through.
#[derive(Clone, Debug)]
pub enum Table {
    /// A tree: each level takes so many bits of the address.
    Radix {
        /// log2 of the bytes of a base page.
        base: u32,
        /// Bits of the address for each level.
        bits: u32,
        /// Levels.
        levels: u32,
    },
    /// Chains of buckets.
    Hashed(Hashed),
    /// One entry, loaded by a handler.
    Software,
}

impl Table {
    /// What is read from the root to the page's entry: for each read, log2 of the bytes that it maps, deepest first.
    /// `key`: what identifies the page in all address spaces.
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

    /// A page has lost its entry.
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

/// The key of the page of each entry that is not free.
type Bucket = Vec<Option<u64>>;

/// A hashed page table.
#[derive(Clone, Debug)]
pub struct Hashed {
    /// Its sets choose the chain.
    hash: ReplacementModel,
    /// Entries of a bucket.
    per_bucket: usize,
    /// The buckets of each hash value.
    chains: Vec<Vec<Bucket>>,
}

impl Hashed {
    /// An empty table. `index` is the name that machine files use.
    pub fn new(buckets: usize, per_bucket: usize, index: &str) -> Hashed {
        let hash = ReplacementModel::new(buckets, 1, "lru", 0, index);
        Hashed { hash, per_bucket, chains: vec![Vec::new(); buckets] }
    }

    /// Buckets read up to the one that holds the page, which is put into the first free entry if it is nowhere.
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
